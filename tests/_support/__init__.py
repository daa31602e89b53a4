"""What several test folders share. Nothing here is a test, and nothing of the package imports it."""
