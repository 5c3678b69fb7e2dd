"""What a person and a program read: pure text and JSON shapes, no I/O."""
