"""Networks of other domains than pictures and text: recommendation, radiance fields, graphs, speech, video, points, recurrences by decay, weights made for each sample.

Used as problems.py is: `export DIR [NAMES]`, `time DIR OUT.json [NAMES]`; NAMES are parts of names, with commas between.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

from networks import RmsNorm, attend, network
from problems import PROBLEMS, main

PROBLEMS.clear()


def mlp(*widths, act=nn.ReLU, last=None):
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b), act()]
    return nn.Sequential(*layers[:-1], *([last()] if last else []))


class Dlrm(nn.Module):
    """26 tables of 10,000 rows, products of all pairs of what they give, and perceptrons below and above."""

    def __init__(self, tables=26, rows=10000, width=64):
        super().__init__()
        self.tables = nn.Parameter(torch.zeros(tables * rows, width))
        self.register_buffer("first", torch.arange(tables) * rows, persistent=False)
        self.below, self.above = mlp(13, 512, 256, width, last=nn.ReLU), mlp((tables + 1) ** 2 + width, 512, 256, 1)

    def forward(self, dense, rows):
        x = self.below(dense)
        t = torch.cat([x[:, None], self.tables[rows + self.first]], 1)
        pairs = t @ t.transpose(1, 2)
        return self.above(torch.cat([x, pairs.flatten(1)], 1)).squeeze(1)


class Nerf(nn.Module):
    """Rays of 64 samples: positions in frequencies, eight layers with a skip, colours summed by transmittance."""

    def __init__(self, width=256):
        super().__init__()
        self.register_buffer("scales", 2.0 ** torch.arange(10), persistent=False)
        self.a, self.b = mlp(63, *[width] * 4, last=nn.ReLU), mlp(width + 63, *[width] * 4, last=nn.ReLU)
        self.o = nn.Linear(width, 4)

    def forward(self, x, gaps):
        angles = (x[..., None, :] * self.scales[:, None]).flatten(-2)
        e = torch.cat([x, torch.sin(angles), torch.cos(angles)], -1)
        y = self.o(self.b(torch.cat([self.a(e), e], -1)))
        colour, depth = torch.sigmoid(y[..., :3]), F.relu(y[..., 3]) * gaps
        through = torch.exp(depth - torch.cumsum(depth, -1))
        return ((through * (1 - torch.exp(-depth)))[..., None] * colour).sum(-2)


class Graph(nn.Module):
    """Three rounds of messages along 400,000 edges between 50,000 nodes, summed where they arrive."""

    def __init__(self, width=64, depth=3):
        super().__init__()
        self.a = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(depth))
        self.b = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(depth))

    def forward(self, x, sources, targets):
        for a, b in zip(self.a, self.b):
            messages = F.relu(a(torch.cat([x[sources], x[targets]], -1)))
            at = targets[:, None].expand(-1, x.shape[1])
            x = x + F.relu(b(torch.cat([x, torch.zeros_like(x).scatter_add(0, at, messages)], -1)))
        return x


class Residual(nn.Module):
    def __init__(self, c, k):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(32, c), nn.GroupNorm(32, k)
        self.c1, self.c2 = nn.Conv2d(c, k, 3, padding=1), nn.Conv2d(k, k, 3, padding=1)
        self.skip = nn.Conv2d(c, k, 1) if c != k else nn.Identity()

    def forward(self, x):
        return self.skip(x) + self.c2(F.silu(self.n2(self.c1(F.silu(self.n1(x))))))


class Middle(nn.Module):
    """Attention of one head over all places."""

    def __init__(self, c):
        super().__init__()
        self.n, self.q, self.k, self.v, self.o = nn.GroupNorm(32, c), *(nn.Conv2d(c, c, 1) for _ in range(4))

    def forward(self, x):
        n = self.n(x)
        q, k, v = (f(n).flatten(2).transpose(1, 2) for f in (self.q, self.k, self.v))
        return x + self.o(attend(q, k, v).transpose(1, 2).unflatten(2, x.shape[2:]))


def decoder(width=128):
    """What makes a picture of a latent one: 64 x 64 to 512 x 512."""
    c = 4 * width
    layers = [nn.Conv2d(4, c, 3, padding=1), Residual(c, c), Middle(c), Residual(c, c)]
    for i, k in enumerate((4, 4, 2, 1)):
        layers += [Residual(c, k * width), Residual(k * width, k * width)]
        c = k * width
        if i < 3:
            layers += [nn.Upsample(scale_factor=2), nn.Conv2d(c, c, 3, padding=1)]
    return nn.Sequential(*layers, nn.GroupNorm(32, c), nn.SiLU(), nn.Conv2d(c, 3, 3, padding=1))


class Whole(nn.Module):
    """A block of attention among all positions, of another sequence's where `cross`."""

    def __init__(self, width, heads, inner=4, cross=False):
        super().__init__()
        self.heads, self.cross = heads, cross
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.a, self.b = nn.Linear(width, inner * width), nn.Linear(inner * width, width)

    def forward(self, x, other=None, mask=None):
        n = self.n1(x)
        m = other if self.cross else n
        rows = lambda y: y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q, k, v = rows(self.q(n)), rows(self.k(m)), rows(self.v(m))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores + mask
        x = x + self.o((torch.softmax(scores, -1) @ v).transpose(1, 2).flatten(2))
        return x + self.b(F.gelu(self.a(self.n2(x))))


class Speech(nn.Module):
    """An encoder of 30 s of 80 bands: two convolutions and attention over 1500 positions."""

    def __init__(self, width=512, heads=8, depth=6):
        super().__init__()
        self.c1, self.c2 = nn.Conv1d(80, width, 3, padding=1), nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.at = nn.Parameter(torch.zeros(1500, width))
        self.body = nn.Sequential(*(Whole(width, heads) for _ in range(depth)), nn.LayerNorm(width))

    def forward(self, x):
        return self.body(F.gelu(self.c2(F.gelu(self.c1(x)))).transpose(1, 2) + self.at)


class Translation(nn.Module):
    """Sentences of different lengths, attended to by others: masks by length, causal ones, and both."""

    def __init__(self, width=512, heads=8, depth=3):
        super().__init__()
        self.encoder = nn.ModuleList(Whole(width, heads) for _ in range(depth))
        self.own = nn.ModuleList(Whole(width, heads) for _ in range(depth))
        self.across = nn.ModuleList(Whole(width, heads, cross=True) for _ in range(depth))

    def forward(self, x, y, lengths):
        n, m = x.shape[1], y.shape[1]
        hidden = torch.arange(n, device=x.device)[None] > lengths[:, None]
        mask = torch.zeros_like(hidden, dtype=x.dtype).masked_fill(hidden, -1e4)[:, None, None]
        later = torch.zeros(m, m, dtype=x.dtype, device=x.device).masked_fill(
            torch.ones(m, m, dtype=torch.bool, device=x.device).triu(1), -1e4
        )
        for f in self.encoder:
            x = f(x, None, mask)
        for f, g in zip(self.own, self.across):
            y = g(f(y, None, later), x, mask)
        return y


class Biased(nn.Module):
    """Attention with biases by distance from a table of 32 a head, and gated units, as in T5."""

    def __init__(self, width=768, heads=12, positions=512):
        super().__init__()
        self.heads, self.n1, self.n2 = heads, RmsNorm(width), RmsNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, False) for _ in range(4))
        self.a, self.g, self.b = nn.Linear(width, 2048, False), nn.Linear(width, 2048, False), nn.Linear(2048, width, False)
        self.table = nn.Parameter(torch.zeros(32, heads))
        d = torch.arange(positions)[None] - torch.arange(positions)[:, None]
        far = 8 + (torch.log(d.abs().clamp(min=1) / 8) / math.log(16) * 8).long()
        self.register_buffer("bucket", torch.where(d > 0, 16, 0) + torch.where(d.abs() < 8, d.abs(), far.clamp(max=15)), persistent=False)

    def forward(self, x):
        n = self.n1(x)
        rows = lambda y: y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        scores = rows(self.q(n)) @ rows(self.k(n)).transpose(-1, -2) + self.table[self.bucket].permute(2, 0, 1)
        x = x + self.o((torch.softmax(scores, -1) @ rows(self.v(n))).transpose(1, 2).flatten(2))
        n = self.n2(x)
        return x + self.b(F.gelu(self.g(n), approximate="tanh") * self.a(n))


class Retention(nn.Module):
    """Attention by decay in place of a softmax, with normalised heads and a gate."""

    def __init__(self, width=1024, heads=8):
        super().__init__()
        self.heads, self.n = heads, RmsNorm(width)
        self.q, self.k, self.v, self.g, self.o = (nn.Linear(width, width, False) for _ in range(5))
        self.register_buffer("rates", torch.log(1 - 2.0 ** (-5.0 - torch.arange(heads))), persistent=False)

    def forward(self, x):
        n = self.n(x)
        rows = lambda y: y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q, k, v = rows(self.q(n)), rows(self.k(n)), rows(self.v(n))
        at = torch.arange(x.shape[1], device=x.device, dtype=torch.float32)
        gap = at[:, None] - at[None]
        decay = torch.where(gap >= 0, torch.exp(gap * self.rates.float()[:, None, None]), 0.0)
        y = (q @ k.transpose(-1, -2) * (decay * q.shape[-1] ** -0.5).to(q.dtype)) @ v
        y = y * torch.rsqrt((y.float() ** 2).mean(-1, keepdim=True) + 1e-5).to(y.dtype)
        return x + self.o(F.silu(self.g(n)) * y.transpose(1, 2).flatten(2))


class Experts(nn.Module):
    """Eight experts of gated units; each position has the best two of them, all of them multiplied."""

    def __init__(self, width=1024, inner=2048, experts=8):
        super().__init__()
        self.gate = nn.Linear(width, experts, False)
        self.a, self.g = (nn.Parameter(torch.zeros(experts, width, inner)) for _ in range(2))
        self.b = nn.Parameter(torch.zeros(experts, inner, width))

    def forward(self, x):
        scores = self.gate(x)
        best, _ = torch.topk(scores, 2, -1)
        p = torch.softmax(scores.masked_fill(scores < best[:, 1:], -math.inf), -1)
        y = (F.silu(x @ self.g) * (x @ self.a)) @ self.b
        return x + (y * p.t()[..., None]).sum(0)


class Volume(nn.Module):
    def __init__(self, c, k, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv3d(c, k, 3, stride, 1, bias=False), nn.BatchNorm3d(k), nn.ReLU(), nn.Conv3d(k, k, 3, 1, 1, bias=False), nn.BatchNorm3d(k)
        )
        self.skip = nn.Sequential(nn.Conv3d(c, k, 1, stride, bias=False), nn.BatchNorm3d(k)) if c != k else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


def video():
    layers, c = [nn.Conv3d(3, 64, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False), nn.BatchNorm3d(64), nn.ReLU()], 64
    for k in (64, 128, 256, 512):
        layers += [Volume(c, k, 1 if c == k else 2), Volume(k, k, 1)]
        c = k
    return nn.Sequential(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(c, 400))


class Points(nn.Module):
    """Features of points, their maximum over a cloud, and both together for each point."""

    def __init__(self):
        super().__init__()
        chain = lambda *w: nn.Sequential(
            *(m for a, b in zip(w, w[1:]) for m in (nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU()))
        )
        self.a, self.b = chain(3, 64, 64), chain(64, 128, 1024)
        self.c, self.o = chain(1088, 512, 256, 128), nn.Conv1d(128, 13, 1)

    def forward(self, x):
        near = self.a(x)
        whole = self.b(near).amax(2, keepdim=True).expand(-1, -1, x.shape[2])
        return F.log_softmax(self.o(self.c(torch.cat([near, whole], 1))), 1)


class Modulated(nn.Module):
    """A convolution whose weights are scaled and normalised for each sample, as in StyleGAN, with noise and an activation."""

    def __init__(self, c, k, style=512):
        super().__init__()
        self.s, self.w = nn.Linear(style, c), nn.Parameter(torch.zeros(k, c, 3, 3))
        self.bias = nn.Parameter(torch.zeros(k, 1, 1))

    def forward(self, x, style):
        b, c, h, w = x.shape
        weights = self.w[None] * self.s(style)[:, None, :, None, None]
        weights = weights * torch.rsqrt((weights * weights).sum((2, 3, 4), keepdim=True) + 1e-8)
        y = F.conv2d(x.reshape(1, b * c, h, w), weights.flatten(0, 1), padding=1, groups=b)
        return F.leaky_relu(y.view(b, -1, h, w) + self.bias, 0.2)


class Styled(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = Modulated(256, 256), Modulated(256, 128), Modulated(128, 128)

    def forward(self, x, style):
        y = self.b(self.a(x, style), style)
        return self.c(F.interpolate(y, scale_factor=2, mode="bilinear"), style)


class Segments(nn.Module):
    """Dilated convolutions side by side and the mean of the picture, enlarged eight times."""

    def __init__(self, c=512, k=256, classes=21):
        super().__init__()
        part = lambda size, d: nn.Sequential(
            nn.Conv2d(c, k, size, padding=d if size > 1 else 0, dilation=d, bias=False), nn.BatchNorm2d(k), nn.ReLU()
        )
        self.parts = nn.ModuleList([part(1, 1), part(3, 6), part(3, 12), part(3, 18)])
        self.mean = nn.Conv2d(c, k, 1)
        self.join, self.o = nn.Conv2d(5 * k, k, 1), nn.Conv2d(k, classes, 1)

    def forward(self, x):
        mean = F.relu(self.mean(x.mean((2, 3), keepdim=True))).expand(-1, -1, *x.shape[2:])
        y = self.o(F.relu(self.join(torch.cat([*(f(x) for f in self.parts), mean], 1))))
        return F.interpolate(y, scale_factor=8, mode="bilinear").log_softmax(1)


def larger():
    """A picture three times as large, by shuffled channels."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 5, padding=2), nn.PReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.PReLU(),
        nn.Conv2d(64, 32, 3, padding=1), nn.PReLU(), nn.Conv2d(32, 27, 3, padding=1), nn.PixelShuffle(3)
    )


class Table(nn.Module):
    """Rows of a table: columns of categories and of numbers, normalised by the batch."""

    def __init__(self, columns=40, words=1000, width=16):
        super().__init__()
        self.words = nn.Embedding(columns * words, width)
        self.register_buffer("first", torch.arange(columns) * words, persistent=False)
        layers, c = [], columns * width + 100
        for k in (1024, 512, 256):
            layers += [nn.Linear(c, k, False), nn.BatchNorm1d(k), nn.SiLU()]
            c = k
        self.body = nn.Sequential(*layers, nn.Linear(c, 1))

    def forward(self, numbers, rows):
        return self.body(torch.cat([self.words(rows + self.first).flatten(1), numbers], 1)).squeeze(1)


network("dlrm_b2048", Dlrm, (2048, 13), ("int:10000", 2048, 26))
network("nerf_r4096", Nerf, (4096, 64, 3), (4096, 64))
network("graph_n50000", Graph, (50000, 64), ("int:50000", 400000), ("int:50000", 400000))
network("decoder_b1", decoder, (1, 4, 64, 64))
network("speech_b4", Speech, (4, 80, 3000))
network("translation_b16", Translation, (16, 250, 512), (16, 199, 512), ("int:250", 16))
network("biased_b8", lambda: nn.Sequential(*(Biased() for _ in range(4))), (8, 512, 768))
network("retention_b4", lambda: nn.Sequential(*(Retention() for _ in range(2))), (4, 2048, 1024))
network("experts_t4096", Experts, (4096, 1024))
network("video_b4", video, (4, 3, 16, 112, 112))
network("points_b16", Points, (16, 3, 2048))
network("styled_b8", Styled, (8, 256, 64, 64), (8, 512))
network("segments_b8", Segments, (8, 512, 65, 65))
network("larger_b8", larger, (8, 3, 240, 256))
network("table_b4096", Table, (4096, 100), ("int:1000", 4096, 40))

if __name__ == "__main__":
    main()
