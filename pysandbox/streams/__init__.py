"""What flows in and out of a running command: the host's ends of its pipes, in each of the ways that users ask for.

command_streams.py   output up to a cap, input, never blocking     text_streams.py   files of text (text=True)
line_listener.py     a function that hears each line               aio_streams.py    asyncio's streams
"""
