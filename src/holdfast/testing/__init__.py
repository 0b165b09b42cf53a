"""What tests need: real servers, worlds that can be steered, and suites that any backend can be held to."""
