"""What a report becomes: tables for people, JSON, CSV and Markdown files, SVG drawings.

writers.py keeps the files whole after every row; row_table.py and sweep_table.py choose columns;
drawings.py chooses what is drawn, figures.py, roofline.py and sweep_curves.py draw. Nothing is
measured here. Called by commands/ and tune/.
"""
