"""HTTP/1.1 and HTTP/2 on asyncio protocols: the front of the API server and of the proxy, and the proxy's client side."""
