"""What an application is made of: settings, registration, its life, and the stores and guards that hang from it."""
