"""URL forms that lead inside, or out of the web: what a page or a search result may try.

Names resolve to what `ADDRESSES` says, all others to loopback, as an attacker's own name server
would have it.
"""

ADDRESSES = {
    "mixed.example": ["93.184.215.14", "10.0.0.1"],
    "six.example": ["2606:2800:21f:cb07::1", "::1"],
    "mapped.example": ["::ffff:169.254.169.254"],
    "translated.example": ["64:ff9b::a9fe:a9fe"],
    "scoped.example": ["fe80::1%2"],
    "public.example": ["93.184.215.14"],
    "nobody.example": [],
}

_HOSTS = """
    127.0.0.1 127.0.0.1:80 127.0.0.1:443 127.0.0.1: 127.1 127.0.1 127.1. 127.0.0.1. 127.255.255.254
    2130706433 0x7f000001 0x7F.0x0.0x0.0x1 0x7f.1 0x7f.0.0.01 017700000001 0177.0.0.1 0177.1
    00000177.0.0.1 0 0.0.0.0 0x0 00.00 255.255.255.255 4294967295
    10.0.0.1 10.255.255.255 10.1 167772161 0xa000001 012.0.0.1 172.16.0.1 172.31.255.254
    2886729729 192.168.0.1 192.168.1 3232235521 0xC0A80001 0300.0250.0.1
    169.254.169.254 169.254.169.254. 169.254.43518 2852039166 0xA9FEA9FE 0251.0376.0251.0376
    0xa9.254.0251.0xfe 100.64.0.1 100.100.100.200 192.0.0.192 192.0.2.1 198.18.0.1 198.51.100.7
    203.0.113.9 224.0.0.1 239.255.255.250 240.0.0.1
    [::1] [::1]:443 [0:0:0:0:0:0:0:1] [0000::0001] [::] [::127.0.0.1] [::ffff:127.0.0.1]
    [::ffff:7f00:1] [::FFFF:10.0.0.1] [::ffff:169.254.169.254] [::ffff:0:127.0.0.1]
    [64:ff9b::127.0.0.1] [64:ff9b::a9fe:a9fe] [64:ff9b:1::7f00:1] [2002:7f00:1::]
    [2002:a9fe:a9fe::1] [2002:c0a8:1::1] [2001:0:7f00:1::] [2001:db8::5efe:127.0.0.1] [fe80::1]
    [fe80::1%25eth0] [fe80::1%eth0] [::1%25lo] [fc00::1] [fd00:ec2::254] [fec0::1] [ff02::1]
    [100::1] [::1 [::1]a [v1.127.0.0.1]
    public.example@127.0.0.1 public.example:80@127.0.0.1 a:b@c@127.0.0.1 public.example%40127.0.0.1
    127.0.0.1#@public.example 127.0.0.1?@public.example 127.0.0.1\\@inside.example
    public.example\\@127.0.0.1 public.example%00@127.0.0.1 public.example%2f@localhost
    localhost LOCALHOST localhost. localhost:80 localhost.localdomain ip6-localhost
    127.0.0.1.wildcard.example metadata.google.internal host.docker.internal router.local redis
    xn--n28h.example mixed.example MIXED.example. six.example mapped.example translated.example
    scoped.example nobody.example 127.0.0.256 1.2.3.4.5 0x7f.0x1.0x1.0x1.0x1 ..  .localhost
    ①②⑦.⓪.⓪.① 127。0。0。1 127．0．0．1 127｡0｡0｡1 １２７.０.０.１ ⓛⓞⓒⓐⓛⓗⓞⓢⓣ lоcalhost localhost。
    loc\u00adalhost 127.0.0.1\u200b %6c%6f%63%61lhost 127%2e0%2e0%2e1 %31%32%37.0.0.1 [::１]
    𝟏𝟐𝟕.𝟎.𝟎.𝟏 [3fff::1] [5f00::1] 192.88.99.1
    public.example:22 public.example:25 public.example:6379 public.example:8000 public.example:0
    public.example:65535 public.example:65536 public.example:-1 public.example:80x 127.0.0.1:8080
"""
_OTHERS = (
    *("ftp://127.0.0.1/", "ftp://public.example/", "file:///etc/passwd", "file://localhost/etc/x"),
    *("gopher://127.0.0.1:6379/_INFO", "dict://127.0.0.1:11211/", "ldap://127.0.0.1/", "tftp://a/"),
    *("ws://127.0.0.1/", "wss://127.0.0.1/", "jar:http://127.0.0.1!/", "http+unix://%2Frun%2Fa/"),
    *("data:text/html,<p>a", "javascript:alert(1)", "mailto:a@b.example", "about:blank", "a.sock"),
    *("HTTP://127.0.0.1/", "hTtPs://LocalHost/", "http:127.0.0.1/", "http:/127.0.0.1/", "http://"),
    *("http:///127.0.0.1/", "http:////127.0.0.1/", "http://?a", "//127.0.0.1/", "///127.0.0.1/"),
    *("\\\\127.0.0.1\\a", "http:\\\\127.0.0.1/", " http://127.0.0.1/", "\thttp://127.0.0.1/"),
    *("http://127.0.0.1\t/", "http://127.0.0.1\n/", "ht\ntp://127.0.0.1/", "http://127.0.0.1 /"),
    *("http://127.0.0.1\r\nHost: a/", "http://127.0.0.1%0d%0aHost:a/", "http://127.0.0.1\x00/"),
)
PRIVATE_URLS = tuple(dict.fromkeys([*(f"http://{it}/" for it in _HOSTS.split()), *_OTHERS]))
