"""The forms of a report: tables for people; JSON, CSV and Markdown files; SVG drawings.

Nothing is measured here. Called by commands/ and tune/.

    writers.py, csv_table.py       --json, --csv, --md: rewritten after every row, always whole
    tables.py                      all tables of a report, printed or as Markdown
    row_table.py, sweep_table.py   the columns of rows; those of a swept axis, and the best row
    versus_table.py                the ratios of rivals, as a table
    drawings.py                    the drawings of --svg
    figures.py, ticks.py           the frame of every drawing; plain numbers, labels without overlap
    roofline.py, sweep_curves.py   the roofline; curves over an axis or a size
    versus_picture.py              the ratios of rivals, as a drawing
"""
