"""The report: one HTML file, or every chart and table as files, made of sections that are found in a folder."""
