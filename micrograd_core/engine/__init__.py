"""What happens at every operation, and how gradients come back.

In the order of reading: `apply` is the path of ``x * y``, `array` the slots it fills, `graph` the record it leaves, and
`sweep` goes back over the records. Around them: `modes` and `autocast` say what holds in a context, `ingest` brings
data in, `keys` and `write` are ``x[key]`` and ``x[key] = value``, `backward` and `hooks` what becomes of gradients.
"""
