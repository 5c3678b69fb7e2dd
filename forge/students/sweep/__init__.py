"""The student that searches families of kernel templates."""
