"""What a report says, as numbers: nothing here knows of HTML or of drawing."""
