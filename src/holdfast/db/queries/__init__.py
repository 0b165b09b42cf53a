"""Named SQL, from the files it is written in to what each driver is handed."""
