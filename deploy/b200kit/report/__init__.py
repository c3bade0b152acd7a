"""The outcome of a run as files, text and one HTML page.

`files.write_hosts` writes ``DIRECTORY/{summary.json,HOST.json.gz,report.html,failed.txt}``,
`terminal.page.lines` gives those for stdout, `html.page.render` the page. All take a run
document ("b200kit/run/1") in any state of completeness; `files.write_hosts` removes secrets first.
"""
