"""The report as one page of HTML, with the picture of the machine."""
