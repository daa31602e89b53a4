"""Real clients against real servers, in an internet of the test's own (`_support.internet`)."""
