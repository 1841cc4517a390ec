"""HTTP: requests sent, responses read, with limits that hold. The door of urllib3.

What `HttpClient` guarantees:

- ``timeout_s`` bounds an attempt from the look-up of the name to the last byte, however slowly
  bytes drip; a `Cancellation` ends it at once, whatever it waits for.
- No body grows beyond ``max_response_bytes``, counted after it was decoded.
- Certificates and names are checked, always.
- Authorization, cookies and keys do not follow a redirect to another server, and no redirect leads
  from https to http.
- Nothing that a request holds can begin a second one: control characters are refused.
- Addresses in messages have no query; no header and no body is in any message.
"""
