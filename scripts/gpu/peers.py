"""Peers of the GPU benchmark: PyTorch (eager and Inductor) and JAX (XLA) on the rows of rows.mjs, from plain expressions.

python3 peers.py torch|jax   reads requests from standard input, a JSON object a line, and answers each with one:
  {"row": NAME}      makes inputs and compiles; answers {"systems": {SYSTEM: first call in seconds}}, or {} for a row it lacks
  {"measure": N}     answers {SYSTEM: milliseconds a call}, each over N calls between two marks of the device's clock
  {"copy": true}     answers {"copy": GB a second of a device-to-device copy, "matmul": TFLOP/s of an 8192^3 bf16 product}
Inputs rotate between several sets, so that the second-level cache does not serve them.
"""
import json
import math
import os
import sys
import time

SETS_BYTES = 240 << 20  # Inputs in rotation: four times the second-level cache.


def chain100(x):
    for _ in range(50):
        x = x * 0.99 + 0.01
    return x


def torch_rows():
    import torch
    import torch.nn.functional as F

    torch.manual_seed(0)
    bf = torch.bfloat16
    half = lambda *s: torch.randn(*s, device="cuda").to(bf)
    full = lambda *s: torch.randn(*s, device="cuda")

    def silu_mul(x):
        a, b = x.chunk(2, -1)
        return F.silu(a) * b

    def add_rmsnorm(x, r, w):
        s = x + r
        h = s.float()
        return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(bf) * w, s

    def layernorm(x, w, b):
        return F.layer_norm(x, (x.shape[-1],), w, b)

    def backward(f):
        def step(x, w, b, g):
            y = f(x, w, b)
            return (y, *torch.autograd.grad(y, (x, w, b), g))

        return step

    def rope(x, w, cos, sin):
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()
        a, b = h.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(bf)

    def cross_entropy(x, t):
        loss = F.cross_entropy(x.float(), t)
        return loss, torch.autograd.grad(loss, x)[0]

    def relu_backward(y, g):
        d = torch.where(y > 0, g, 0)
        return d, d.float().sum(0)

    def tanh_means(x):
        for i in range(50):
            x = torch.tanh(x)
            x = x - x.mean(i % 2, keepdim=True)
        return x

    def leaf(*ts):
        return [t.requires_grad_() for t in ts]

    def adam(fused):
        def make():
            ps = [full(1 << 20) for _ in range(200)]
            for p in ps:
                p.grad = full(1 << 20)
            o = torch.optim.AdamW(ps, lr=1e-3, **({"fused": True} if fused else {"foreach": True}))
            return lambda: o.step()

        return make

    one = lambda make, f, **kw: (make, {"eager": f, "inductor": torch.compile(f, dynamic=False, **kw)})
    # Backward inside a compiled function: Inductor traces through autograd.grad only from the forward it compiles itself.
    def both_ways(f, make):
        c = torch.compile(f, dynamic=False)
        return make, {"eager": backward(f), "inductor": backward(c)}

    def entropy():
        plain = lambda x, t: F.cross_entropy(x.float(), t)
        c = torch.compile(plain, dynamic=False)

        def through(f):
            def step(x, t):
                loss = f(x, t)
                return loss, torch.autograd.grad(loss, x)[0]

            return step

        make = lambda: (*leaf(half(4096, 128256)), torch.randint(128256, (4096,), device="cuda"))
        return make, {"eager": through(plain), "inductor": through(c)}

    t = 16384
    return {
        "log_exp": lambda: one(lambda: (full(1 << 27),), lambda x: torch.log(torch.exp(x) + 1)),
        "silu_mul": lambda: one(lambda: (half(t, 22016),), silu_mul),
        "sum_exp": lambda: one(lambda: (full(1 << 27),), lambda x: torch.exp(x).sum()),
        "add_rmsnorm": lambda: one(lambda: (half(t, 4096), half(t, 4096), half(4096)), add_rmsnorm),
        "softmax": lambda: one(lambda: (half(t, 4096),), lambda x: F.softmax(x, -1)),
        "layernorm": lambda: one(lambda: (half(t, 4096), half(4096), half(4096)), layernorm),
        "softmax_4x": lambda: one(lambda: (half(4 * t, 4096),), lambda x: F.softmax(x, -1)),
        "layernorm_4x": lambda: one(lambda: (half(4 * t, 4096), half(4096), half(4096)), layernorm),
        "add_rmsnorm_4x": lambda: one(lambda: (half(4 * t, 4096), half(4 * t, 4096), half(4096)), add_rmsnorm),
        "layernorm_backward": lambda: both_ways(
            layernorm, lambda: (*leaf(half(t, 4096), half(4096), half(4096)), half(t, 4096))
        ),
        "rmsnorm_rope": lambda: one(
            lambda: (half(t, 40, 128), half(128), full(t, 1, 64), full(t, 1, 64)), rope
        ),
        "rmsnorm_rope_4x": lambda: one(
            lambda: (half(4 * t, 40, 128), half(128), full(4 * t, 1, 64), full(4 * t, 1, 64)), rope
        ),
        "gelu_dropout": lambda: one(lambda: (half(t, 4096), half(4096)), lambda x, b: F.dropout(F.gelu(x + b), 0.1)),
        "cross_entropy": entropy,
        "relu_bias_backward": lambda: one(lambda: (half(t, 4096), half(t, 4096)), relu_backward),
        "adamw": lambda: (None, {"foreach": adam(False), "fused": adam(True)}),
        "matmul_gelu": lambda: one(
            lambda: (half(8192, 4096), half(4096, 4096), half(4096)),
            lambda x, w, b: F.gelu(x @ w + b, approximate="tanh"),
        ),
        "chain100": lambda: one(lambda: (full(1024),), chain100, mode="reduce-overhead"),
        "tanh_means": lambda: one(lambda: (full(1024, 32),), tanh_means, mode="reduce-overhead"),
    }


def jax_rows():
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax
    import jax.numpy as jnp

    bf = jnp.bfloat16
    keys = iter(jax.random.split(jax.random.PRNGKey(0), 10000))
    full = lambda *s: jax.random.normal(next(keys), s, jnp.float32)
    half = lambda *s: full(*s).astype(bf)
    rms = lambda h: jax.lax.rsqrt((h * h).mean(-1, keepdims=True) + 1e-6)

    def silu_mul(x):
        a, b = jnp.split(x, 2, -1)
        return jax.nn.silu(a) * b

    def add_rmsnorm(x, r, w):
        s = x + r
        h = s.astype(jnp.float32)
        return (h * rms(h)).astype(bf) * w, s

    def layernorm(x, w, b):
        h = x.astype(jnp.float32)
        d = h - h.mean(-1, keepdims=True)
        return (d * jax.lax.rsqrt((d * d).mean(-1, keepdims=True) + 1e-5) * w + b).astype(bf)

    def layernorm_backward(x, w, b, g):
        y, pull = jax.vjp(layernorm, x, w, b)
        return (y, *pull(g))

    def rope(x, w, cos, sin):
        h = x.astype(jnp.float32)
        h = h * rms(h) * w.astype(jnp.float32)
        a, b = jnp.split(h, 2, -1)
        return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(bf)

    def gelu_dropout(x, b, key):
        y = jax.nn.gelu(x + b, approximate=False)
        return jnp.where(jax.random.bernoulli(key, 0.9, y.shape), y / 0.9, 0).astype(bf)

    def cross_entropy(x, t):
        f = lambda l: -jnp.take_along_axis(jax.nn.log_softmax(l.astype(jnp.float32), -1), t[:, None], 1).mean()
        return jax.value_and_grad(f)(x)

    def relu_backward(y, g):
        d = jnp.where(y > 0, g, 0)
        return d, d.astype(jnp.float32).sum(0)

    def tanh_means(x):
        for i in range(50):
            x = jnp.tanh(x)
            x = x - x.mean(i % 2, keepdims=True)
        return x

    one = lambda make, f: (make, {"xla": jax.jit(f)})
    t = 16384
    return {
        "log_exp": lambda: one(lambda: (full(1 << 27),), lambda x: jnp.log(jnp.exp(x) + 1)),
        "silu_mul": lambda: one(lambda: (half(t, 22016),), silu_mul),
        "sum_exp": lambda: one(lambda: (full(1 << 27),), lambda x: jnp.exp(x).sum()),
        "add_rmsnorm": lambda: one(lambda: (half(t, 4096), half(t, 4096), half(4096)), add_rmsnorm),
        "softmax": lambda: one(lambda: (half(t, 4096),), lambda x: jax.nn.softmax(x, -1)),
        "layernorm": lambda: one(lambda: (half(t, 4096), half(4096), half(4096)), layernorm),
        "softmax_4x": lambda: one(lambda: (half(4 * t, 4096),), lambda x: jax.nn.softmax(x, -1)),
        "layernorm_4x": lambda: one(lambda: (half(4 * t, 4096), half(4096), half(4096)), layernorm),
        "add_rmsnorm_4x": lambda: one(lambda: (half(4 * t, 4096), half(4 * t, 4096), half(4096)), add_rmsnorm),
        "layernorm_backward": lambda: one(
            lambda: (half(t, 4096), half(4096), half(4096), half(t, 4096)), layernorm_backward
        ),
        "rmsnorm_rope": lambda: one(
            lambda: (half(t, 40, 128), half(128), full(t, 1, 64), full(t, 1, 64)), rope
        ),
        "rmsnorm_rope_4x": lambda: one(
            lambda: (half(4 * t, 40, 128), half(128), full(4 * t, 1, 64), full(4 * t, 1, 64)), rope
        ),
        "gelu_dropout": lambda: one(lambda: (half(t, 4096), half(4096), next(keys)), gelu_dropout),
        "cross_entropy": lambda: one(
            lambda: (half(4096, 128256), jax.random.randint(next(keys), (4096,), 0, 128256)), cross_entropy
        ),
        "relu_bias_backward": lambda: one(lambda: (half(t, 4096), half(t, 4096)), relu_backward),
        "matmul_gelu": lambda: one(
            lambda: (half(8192, 4096), half(4096, 4096), half(4096)), lambda x, w, b: jax.nn.gelu(x @ w + b)
        ),
        "chain100": lambda: one(lambda: (full(1024),), chain100),
        "tanh_means": lambda: one(lambda: (full(1024, 32),), tanh_means),
    }


class Torch:
    def __init__(self):
        import torch

        self.torch, self.rows = torch, torch_rows()

    def wait(self):
        self.torch.cuda.synchronize()

    def bytes(self, args):
        return sum(a.numel() * a.element_size() for a in args)

    def fresh(self):
        self.torch._dynamo.reset()
        self.torch.cuda.empty_cache()

    def timed(self, f, n):
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for i in range(n):
            f(i)
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / n

    def ceilings(self):
        torch = self.torch
        x = torch.empty(1 << 30, device="cuda", dtype=torch.uint8)
        y = torch.empty_like(x)
        a, b = (torch.randn(8192, 8192, device="cuda").to(torch.bfloat16) for _ in range(2))
        middle = lambda f, n: sorted(self.timed(lambda _: f(), n) for _ in range(7))[3]
        y.copy_(x), a @ b
        return {
            "copy": 2 * x.numel() / middle(lambda: y.copy_(x), 10) / 1e6,
            "matmul": 2 * 8192**3 / middle(lambda: a @ b, 10) / 1e9,
        }


class Jax:
    def __init__(self):
        self.rows = jax_rows()
        import jax

        self.jax, self.last = jax, None

    def wait(self):
        self.jax.block_until_ready(self.last)

    def bytes(self, args):
        return sum(a.nbytes for a in args)

    def fresh(self):
        self.last = None
        self.jax.clear_caches()

    def timed(self, f, n):
        self.last = f(0)
        self.wait()
        start = time.perf_counter()
        for i in range(n):
            self.last = f(i)
        self.wait()
        return (time.perf_counter() - start) * 1e3 / n


def prepare(peer, name):
    """Callables by system, each taking the turn's number, and the seconds of their first calls."""
    peer.fresh()
    if name not in peer.rows:
        return {}, {}
    make, systems = peer.rows[name]()
    calls, first = {}, {}
    sets = None
    if make is not None:
        sets = [make()]
        few = max(1, math.ceil(SETS_BYTES / max(1, peer.bytes(sets[0]))))
        sets += [make() for _ in range(min(7, few if few > 1 or peer.bytes(sets[0]) > 1 << 24 else 0))]
        if peer.bytes(sets[0]) < 1 << 20:
            sets = sets[:1]
    for system, f in systems.items():
        call = (lambda i, f=f: f(*sets[i % len(sets)])) if make is not None else (lambda g: lambda i: g())(f())
        try:
            start = time.perf_counter()
            peer.last = call(0)
            peer.wait()
            first[system] = time.perf_counter() - start
            for i in range(3):
                call(i)
            calls[system] = call
        except Exception as e:  # A peer that cannot run a row is reported, not hidden.
            first[system] = f"{type(e).__name__}: {e}"[:200]
    return calls, first


def main():
    peer = {"torch": Torch, "jax": Jax}[sys.argv[1]]()
    calls = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "row" in request:
            calls = {}
            calls, first = prepare(peer, request["row"])
            answer = {"systems": first}
        elif "measure" in request:
            answer = {s: peer.timed(f, request["measure"]) for s, f in calls.items()}
        else:
            answer = peer.ceilings() if isinstance(peer, Torch) else {}
        print("@" + json.dumps(answer), flush=True)


main()
