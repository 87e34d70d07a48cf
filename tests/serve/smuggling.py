"""Requests that two parsers could read differently, and the one answer that each must get: the status, and no second request.

Sources: RFC 9112 sections 2.2, 3, 5, 6, 7, 11.2; published request-smuggling research (CL.TE, TE.CL, TE.0, CL.0, obs-fold, chunk
extensions, bare CR and LF, header names with blanks, h2c upgrades).
"""

from __future__ import annotations

_SECOND = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
_H = b"Host: a\r\n"


def _post(fields: bytes, body: bytes = b"0\r\n\r\n") -> bytes:
    return b"POST /first HTTP/1.1\r\nHost: a\r\n" + fields + b"\r\n" + body + _SECOND


def _get(fields: bytes) -> bytes:
    return b"GET /first HTTP/1.1\r\n" + fields + b"\r\n"


def _line(line: bytes) -> bytes:
    return line + b"\r\nHost: a\r\n\r\n"


def _chunked(body: bytes) -> bytes:
    return b"POST /first HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + body + _SECOND


CL, TE = b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"

#: name -> (bytes, accepted statuses).  Every one of them must be answered once and end the connection.
REFUSED: dict[str, tuple[bytes, tuple[int, ...]]] = {
    # Both framings.
    "CL.TE": (_post(CL + TE), (400,)),
    "TE.CL": (_post(TE + CL), (400,)),
    "CL 0 and TE": (_post(b"Content-Length: 0\r\n" + TE), (400,)),
    "TE beside a malformed CL": (_post(TE + b"Content-Length: x\r\n"), (400,)),
    # Content-Length.
    "two equal CL": (_post(CL + CL), (400,)),
    "two different CL": (_post(CL + b"Content-Length: 6\r\n"), (400,)),
    "list of CL": (_post(b"Content-Length: 5, 5\r\n"), (400,)),
    "list of different CL": (_post(b"Content-Length: 5, 6\r\n"), (400,)),
    "CL plus": (_post(b"Content-Length: +5\r\n"), (400,)),
    "CL minus": (_post(b"Content-Length: -5\r\n"), (400,)),
    "CL minus zero": (_post(b"Content-Length: -0\r\n"), (400,)),
    "CL hex": (_post(b"Content-Length: 0x5\r\n"), (400,)),
    "CL float": (_post(b"Content-Length: 5.0\r\n"), (400,)),
    "CL exponent": (_post(b"Content-Length: 5e0\r\n"), (400,)),
    "CL underscore": (_post(b"Content-Length: 1_0\r\n"), (400,)),
    "CL empty": (_post(b"Content-Length: \r\n"), (400,)),
    "CL inner blank": (_post(b"Content-Length: 1 5\r\n"), (400,)),
    "CL non-ASCII digit": (_post(b"Content-Length: \xd9\xa5\r\n"), (400,)),
    "CL too large": (_post(b"Content-Length: 99999999999999999999\r\n"), (400,)),
    "CL 2^64 + 5": (_post(b"Content-Length: 18446744073709551621\r\n"), (400,)),
    "CL semicolon": (_post(b"Content-Length: 5;5\r\n"), (400,)),
    "CL quoted": (_post(b'Content-Length: "5"\r\n'), (400,)),
    "CL vertical tab": (_post(b"Content-Length:\x0b5\r\n"), (400,)),
    "CL form feed": (_post(b"Content-Length: 5\x0c\r\n"), (400,)),
    "CL no-break space": (_post(b"Content-Length: 5\xa0\r\n"), (400,)),
    # Transfer-Encoding.
    "TE twice": (_post(TE + TE), (400,)),
    "TE and identity": (_post(TE + b"Transfer-Encoding: identity\r\n"), (400,)),
    "TE identity": (_post(b"Transfer-Encoding: identity\r\n"), (501,)),
    "TE gzip": (_post(b"Transfer-Encoding: gzip\r\n"), (501,)),
    "TE gzip, chunked": (_post(b"Transfer-Encoding: gzip, chunked\r\n"), (501,)),
    "TE chunked, gzip": (_post(b"Transfer-Encoding: chunked, gzip\r\n"), (501,)),
    "TE chunked, chunked": (_post(b"Transfer-Encoding: chunked, chunked\r\n"), (501,)),
    "TE chunked;": (_post(b"Transfer-Encoding: chunked;x\r\n"), (501,)),
    "TE xchunked": (_post(b"Transfer-Encoding: xchunked\r\n"), (501,)),
    "TE chunke": (_post(b"Transfer-Encoding: chunke\r\n"), (501,)),
    "TE quoted": (_post(b'Transfer-Encoding: "chunked"\r\n'), (501,)),
    "TE empty": (_post(b"Transfer-Encoding:\r\n"), (501,)),
    "TE comma": (_post(b"Transfer-Encoding: chunked,\r\n"), (501,)),
    "TE leading comma": (_post(b"Transfer-Encoding: ,chunked\r\n"), (501,)),
    "TE vertical tab": (_post(b"Transfer-Encoding: \x0bchunked\r\n"), (400,)),
    "TE no-break space": (_post(b"Transfer-Encoding: \xa0chunked\r\n"), (501,)),
    "TE long s": (_post(b"Tran\xc5\xbffer-Encoding: chunked\r\n"), (400,)),
    "TE Kelvin sign": (_post(b"Transfer-Encoding: chun\xe2\x84\xaaed\r\n"), (501,)),
    "TE in HTTP/1.0": (b"POST /first HTTP/1.0\r\nHost: a\r\n" + TE + b"\r\n0\r\n\r\n" + _SECOND, (400,)),
    # Names.
    "blank before colon": (_post(b"Transfer-Encoding : chunked\r\n"), (400,)),
    "tab before colon": (_post(b"Transfer-Encoding\t: chunked\r\n"), (400,)),
    "blank before name": (_post(b" Transfer-Encoding: chunked\r\n"), (400,)),
    "blank before the first name": (_get(b" X: 1\r\nHost: a\r\n"), (400,)),
    "no colon": (_get(_H + b"X\r\n"), (400,)),
    "empty name": (_get(_H + b": x\r\n"), (400,)),
    "NUL in a name": (_get(_H + b"X\0Y: 1\r\n"), (400,)),
    "quote in a name": (_get(_H + b'X"Y: 1\r\n'), (400,)),
    "paren in a name": (_get(_H + b"X(Y: 1\r\n"), (400,)),
    "non-ASCII name": (_get(_H + b"X\xe4: 1\r\n"), (400,)),
    "slash in a name": (_get(_H + b"X/Y: 1\r\n"), (400,)),
    "at in a name": (_get(_H + b"X@Y: 1\r\n"), (400,)),
    "control in a name": (_get(_H + b"X\x01: 1\r\n"), (400,)),
    "DEL in a name": (_get(_H + b"X\x7f: 1\r\n"), (400,)),
    # Values and lines.
    "NUL in a value": (_get(_H + b"X: a\0b\r\n"), (400,)),
    "control in a value": (_get(_H + b"X: a\x01b\r\n"), (400,)),
    "DEL in a value": (_get(_H + b"X: a\x7fb\r\n"), (400,)),
    "bare CR in a value": (_get(_H + b"X: a\rTransfer-Encoding: chunked\r\n"), (400,)),
    "bare LF between fields": (_get(_H + b"X: a\nTransfer-Encoding: chunked\r\n"), (400,)),
    "bare LF at the end of a head": (b"GET /first HTTP/1.1\nHost: a\n\n" + _SECOND, (400,)),
    "bare LF behind the request line": (b"GET /first HTTP/1.1\nHost: a\r\n\r\n", (400,)),
    "LF LF as the end": (b"GET /first HTTP/1.1\r\nHost: a\n\n" + _SECOND, (400,)),
    "LF CR LF as the end": (b"GET /first HTTP/1.1\r\nHost: a\n\r\n" + _SECOND, (400,)),
    "CR CR LF": (_get(_H + b"X: a\r\r\n"), (400,)),
    "obs-fold with a blank": (_get(_H + b"X: a\r\n b\r\n"), (400,)),
    "obs-fold with a tab": (_get(_H + b"X: a\r\n\tb\r\n"), (400,)),
    "obs-fold of TE": (_post(b"Transfer-Encoding:\r\n chunked\r\n"), (400,)),
    "obs-fold of CL": (_post(b"Content-Length:\r\n 5\r\n"), (400,)),
    "obs-fold behind the request line": (b"GET /first HTTP/1.1\r\n X: a\r\nHost: a\r\n\r\n", (400,)),
    # The request line.
    "HTTP/0.9": (b"GET /first\r\n\r\n", (400,)),
    "two blanks": (_line(b"GET  /first HTTP/1.1"), (400,)),
    "tab": (_line(b"GET\t/first HTTP/1.1"), (400,)),
    "blank at the end": (_line(b"GET /first HTTP/1.1 "), (400,)),
    "blank in the target": (_line(b"GET /fi rst HTTP/1.1"), (400,)),
    "blank before the method": (_line(b" GET /first HTTP/1.1"), (400,)),
    "NUL in the target": (_line(b"GET /\0 HTTP/1.1"), (400,)),
    "CR in the target": (_line(b"GET /\rx HTTP/1.1"), (400,)),
    "non-ASCII target": (_line(b"GET /\xe4 HTTP/1.1"), (400,)),
    "fragment": (_line(b"GET /first#x HTTP/1.1"), (400,)),
    "no slash": (_line(b"GET first HTTP/1.1"), (400,)),
    "star": (_line(b"GET * HTTP/1.1"), (400,)),
    "CONNECT": (_line(b"CONNECT a:80 HTTP/1.1"), (501,)),
    "absolute without a host": (_line(b"GET http:///x HTTP/1.1"), (400,)),
    "absolute with user information": (_line(b"GET http://u@a/x HTTP/1.1"), (400,)),
    "absolute of another scheme": (_line(b"GET file:///etc/passwd HTTP/1.1"), (400,)),
    "method with a control": (_line(b"G\x01T /first HTTP/1.1"), (400,)),
    "method with a paren": (_line(b"G(T /first HTTP/1.1"), (400,)),
    "method of 100 letters": (_line(b"G" * 100 + b" /first HTTP/1.1"), (501,)),
    "HTTP/1.2": (_line(b"GET /first HTTP/1.2"), (505,)),
    "HTTP/2.0": (_line(b"GET /first HTTP/2.0"), (505,)),
    "HTTP/1.10": (_line(b"GET /first HTTP/1.10"), (400,)),
    "HTTP/01.1": (_line(b"GET /first HTTP/01.1"), (400,)),
    "http/1.1": (_line(b"GET /first http/1.1"), (400,)),
    "HTTP 1.1": (_line(b"GET /first HTTP 1.1"), (400,)),
    "long target": (_line(b"GET /" + b"x" * 20000 + b" HTTP/1.1"), (414,)),
    "target without an end": (b"GET /" + b"x" * 70000, (414,)),
    # Host.
    "no Host": (b"GET /first HTTP/1.1\r\nX: 1\r\n\r\n", (400,)),
    "two Host": (_get(_H + _H), (400,)),
    "two different Host": (_get(_H + b"Host: b\r\n"), (400,)),
    "Host with a slash": (_get(b"Host: a/b\r\n"), (400,)),
    "Host with user information": (_get(b"Host: u@a\r\n"), (400,)),
    "Host with a blank": (_get(b"Host: a b\r\n"), (400,)),
    "Host list": (_get(b"Host: a,b c\r\n"), (400,)),
    "Host with a bad port": (_get(b"Host: a:x\r\n"), (400,)),
    "Host with a long port": (_get(b"Host: a:123456\r\n"), (400,)),
    "Host non-ASCII": (_get(b"Host: \xe4\r\n"), (400,)),
    "Host quote": (_get(b'Host: a"b\r\n'), (400,)),
    # Limits.
    "201 fields": (_get(_H + b"X: y\r\n" * 200), (431,)),
    "64 KiB of fields": (_get(_H + b"X: " + b"y" * 66000 + b"\r\n"), (431,)),
    "64 KiB without an end": (b"GET / HTTP/1.1\r\nX: " + b"y" * 70000, (431,)),
    "expectation": (_post(CL + b"Expect: the-unexpected\r\n", b"abcde"), (417,)),
    "expectation in HTTP/1.0": (
        b"POST / HTTP/1.0\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n",
        (417,),
    ),
    # Chunks.
    "chunk size empty": (_chunked(b"\r\n0\r\n\r\n"), (400,)),
    "chunk size blank": (_chunked(b" 5\r\nhello\r\n0\r\n\r\n"), (400,)),
    "chunk size blank behind": (_chunked(b"5 \r\nhello\r\n0\r\n\r\n"), (400,)),
    "chunk size 0x": (_chunked(b"0x5\r\nhello\r\n0\r\n\r\n"), (400,)),
    "chunk size plus": (_chunked(b"+5\r\nhello\r\n0\r\n\r\n"), (400,)),
    "chunk size minus": (_chunked(b"-5\r\nhello\r\n0\r\n\r\n"), (400,)),
    "chunk size underscore": (_chunked(b"0_5\r\nhello\r\n0\r\n\r\n"), (400,)),
    "chunk size g": (_chunked(b"5g\r\nhello\r\n0\r\n\r\n"), (400,)),
    "chunk size 2^64 + 5": (_chunked(b"10000000000000005\r\nhello\r\n0\r\n\r\n"), (400,)),
    "chunk size non-ASCII": (_chunked(b"\xd9\xa5\r\nhello\r\n0\r\n\r\n"), (400,)),
    "chunk size bare LF": (_chunked(b"5\nhello\r\n0\r\n\r\n"), (400,)),
    "chunk size bare CR": (_chunked(b"5\rhello\r\n0\r\n\r\n"), (400,)),
    "chunk size CR CR LF": (_chunked(b"5\r\r\nhello\r\n0\r\n\r\n"), (400,)),
    "chunk ends with LF": (_chunked(b"5\r\nhello\n0\r\n\r\n"), (400,)),
    "chunk ends with nothing": (_chunked(b"5\r\nhello0\r\n\r\n"), (400,)),
    "chunk ends with two other bytes": (_chunked(b"5\r\nhelloXX0\r\n\r\n"), (400,)),
    "chunk longer than said": (_chunked(b"4\r\nhello\r\n0\r\n\r\n"), (400,)),
    "extension with LF": (_chunked(b"5;a\nb\r\nhello\r\n0\r\n\r\n"), (400,)),
    "extension with CR": (_chunked(b"5;a\rb\r\nhello\r\n0\r\n\r\n"), (400,)),
    "extension without a name": (_chunked(b"5;\r\nhello\r\n0\r\n\r\n"), (400,)),
    "extension with blanks": (_chunked(b"5 ; a = b\r\nhello\r\n0\r\n\r\n"), (400,)),
    "extension with NUL": (_chunked(b"5;a=\0\r\nhello\r\n0\r\n\r\n"), (400,)),
    "extension with an open quote": (_chunked(b'5;a="b\r\nhello\r\n0\r\n\r\n'), (400,)),
    "extension of 2000 bytes": (_chunked(b"5;" + b"a" * 2000 + b"\r\nhello\r\n0\r\n\r\n"), (400,)),
    "extensions of 9 KiB in all": (_chunked((b"1;" + b"a" * 900 + b"\r\nx\r\n") * 10 + b"0\r\n\r\n"), (400,)),
    "last chunk 00 with extension LF": (_chunked(b"00;\n\r\n\r\n"), (400,)),
    "trailer Content-Length": (_chunked(b"0\r\nContent-Length: 5\r\n\r\n"), (400,)),
    "trailer Transfer-Encoding": (_chunked(b"0\r\nTransfer-Encoding: chunked\r\n\r\n"), (400,)),
    "trailer Host": (_chunked(b"0\r\nHost: b\r\n\r\n"), (400,)),
    "trailer Authorization": (_chunked(b"0\r\nAuthorization: x\r\n\r\n"), (400,)),
    "trailer obs-fold": (_chunked(b"0\r\nA: b\r\n c\r\n\r\n"), (400,)),
    "trailer bare LF": (_chunked(b"0\r\nA: b\nC: d\r\n\r\n"), (400,)),
    "trailer blank before colon": (_chunked(b"0\r\nA : b\r\n\r\n"), (400,)),
    "trailers of 9 KiB": (_chunked(b"0\r\nA: " + b"b" * 9000 + b"\r\n\r\n"), (400, 431)),
    "trailers without an end": (_chunked(b"0\r\n" + b"A: b\r\n" * 2000), (400, 431)),
    # Other protocols.
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 100 + b"\r\n\r\n", (400,)),
    "SSH": (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", (400,)),
    "PROXY protocol": (b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n" + _SECOND, (400,)),
    "preface of another version": (b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", (400, 505)),
    "binary": (bytes(range(256)) + b"\r\n\r\n", (400,)),
}

#: name -> (bytes, number of answers 200): what looks odd and has one meaning.
SERVED: dict[str, tuple[bytes, int]] = {
    "one empty line first": (b"\r\n" + _SECOND, 1),
    "pipelining": (_SECOND * 5, 5),
    "upper-case CHUNKED": (
        b"POST / HTTP/1.1\r\nHost: a\r\nTRANSFER-ENCODING: CHUNKED\r\n\r\n1\r\nx\r\n0\r\n\r\n" + _SECOND,
        2,
    ),
    "blanks around a value": (
        b"POST / HTTP/1.1\r\nHost:\t a \t\r\nContent-Length:  1 \r\n\r\nx" + _SECOND,
        2,
    ),
    "zeros before a length": (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0001\r\n\r\nx" + _SECOND, 2),
    "zeros before a size": (_chunked(b"0005\r\nhello\r\n000\r\n\r\n"), 2),
    "an extension": (_chunked(b'5;a;b=c;d="e\\"f"\r\nhello\r\n0;x\r\nT: 1\r\n\r\n'), 2),
    "GET with a body": (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 36\r\n\r\n" + b"x" * 36 + _SECOND, 2),
    "empty Host in HTTP/1.0": (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\nHost: a\r\n\r\n" + _SECOND, 2),
    "absolute form": (b"GET http://a/x HTTP/1.1\r\nHost: other\r\n\r\n" + _SECOND, 2),
    "200 fields": (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 199 + b"\r\n", 1),
    "obs-text": (b"GET / HTTP/1.1\r\nHost: a\r\nX: \xe4\xff\r\n\r\n", 1),
    "empty value": (b"GET / HTTP/1.1\r\nHost: a\r\nX:\r\n\r\n", 1),
    "unknown method": (b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 1),
}
