"""The report: one HTML file, or every chart and table as files, made of the sections in a folder."""
