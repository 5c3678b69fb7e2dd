"""The engine: tasks, building, the judge, students, teacher, reports."""
