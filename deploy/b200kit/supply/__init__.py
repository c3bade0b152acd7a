"""What a site needs before its first run, fetched or made on the controller: nothing runs on nodes.

Its libraries, uv and huggingface_hub, are imported by no other room.
"""
