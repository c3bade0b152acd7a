"""What a site needs before its first run, fetched or made on the controller: nothing runs on nodes.

Its libraries are the extra `supply` of this project; no other room imports them.
"""
