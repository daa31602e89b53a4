"""The HTTP/1.1 forward proxy (h11), and the refusal of HTTP/2 with prior knowledge."""
