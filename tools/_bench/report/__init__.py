"""What a report becomes: tables for people, JSON, CSV and Markdown files, SVG drawings.

Nothing is measured here. Called by commands/ and tune/.

    writers.py                     --json, --csv, --md: whole after every row
    row_table.py, sweep_table.py   the columns on a terminal; those of a swept axis
    drawings.py, figures.py        what --svg draws; the frame of every drawing
    roofline.py, sweep_curves.py   the roofline; curves over an axis or a size
"""
