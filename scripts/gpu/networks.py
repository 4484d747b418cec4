"""Whole networks for inference, written in plain torch.nn: convolutional ones old and new, transformers, recurrent ones.

Used as problems.py is: `export DIR [NAMES]`, `time DIR OUT.json [NAMES]`; NAMES are parts of names, with commas between.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

from problems import PROBLEMS, add, layer, main

PROBLEMS.clear()


class ConvNorm(nn.Sequential):
    """A convolution, batch normalisation, an activation."""

    def __init__(self, c, k, size=1, stride=1, groups=1, act=nn.ReLU):
        layers = [nn.Conv2d(c, k, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(k)]
        super().__init__(*layers, *([act()] if act else []))


class Bottleneck(nn.Module):
    def __init__(self, c, width, k, stride, groups):
        super().__init__()
        self.body = nn.Sequential(
            ConvNorm(c, width), ConvNorm(width, width, 3, stride, groups), ConvNorm(width, k, act=None)
        )
        self.skip = ConvNorm(c, k, 1, stride, act=None) if stride > 1 or c != k else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


def resnet(depths=(3, 4, 6, 3), groups=1, width=64):
    layers, c = [ConvNorm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
    for i, depth in enumerate(depths):
        for j in range(depth):
            layers.append(Bottleneck(c, width << i, 256 << i, 2 if i and not j else 1, groups))
            c = 256 << i
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 1000))


class Squeeze(nn.Module):
    def __init__(self, c, k):
        super().__init__()
        self.a, self.b = nn.Conv2d(c, k, 1), nn.Conv2d(k, c, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.b(F.silu(self.a(x.mean((2, 3), keepdim=True)))))


class Inverted(nn.Module):
    """An inverted bottleneck, of MobileNetV2 and EfficientNet."""

    def __init__(self, c, k, expand, size, stride, act, squeeze):
        super().__init__()
        w = c * expand
        layers = [] if expand == 1 else [ConvNorm(c, w, act=act)]
        layers.append(ConvNorm(w, w, size, stride, w, act))
        if squeeze:
            layers.append(Squeeze(w, max(1, c // 4)))
        self.body = nn.Sequential(*layers, ConvNorm(w, k, act=None))
        self.same = stride == 1 and c == k

    def forward(self, x):
        return x + self.body(x) if self.same else self.body(x)


def inverted(stages, act, squeeze, last):
    c = stages[0][0]
    layers = [ConvNorm(3, c, 3, 2, act=act)]
    for _, k, expand, size, stride, depth in stages:
        for i in range(depth):
            layers.append(Inverted(c, k, expand, size, stride if i == 0 else 1, act, squeeze))
            c = k
    return nn.Sequential(
        *layers, ConvNorm(c, last, act=act), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, 1000)
    )


def mobilenet():
    stages = [(32, 16, 1, 3, 1, 1), (16, 24, 6, 3, 2, 2), (24, 32, 6, 3, 2, 3), (32, 64, 6, 3, 2, 4)]
    return inverted(stages + [(64, 96, 6, 3, 1, 3), (96, 160, 6, 3, 2, 3), (160, 320, 6, 3, 1, 1)], nn.ReLU6, False, 1280)


def efficientnet():
    stages = [(32, 16, 1, 3, 1, 1), (16, 24, 6, 3, 2, 2), (24, 40, 6, 5, 2, 2), (40, 80, 6, 3, 2, 3)]
    return inverted(stages + [(80, 112, 6, 5, 1, 3), (112, 192, 6, 5, 2, 4), (192, 320, 6, 3, 1, 1)], nn.SiLU, True, 1280)


def vgg():
    layers, c = [], 3
    for k, n in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(n):
            layers += [nn.Conv2d(c, k, 3, padding=1), nn.ReLU()]
            c = k
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(
        *layers, nn.Flatten(), nn.Linear(25088, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000)
    )


class Dense(nn.Module):
    def __init__(self, c, growth=32):
        super().__init__()
        self.a, self.b = nn.BatchNorm2d(c), nn.BatchNorm2d(4 * growth)
        self.p, self.q = nn.Conv2d(c, 4 * growth, 1, bias=False), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x):
        return torch.cat([x, self.q(F.relu(self.b(self.p(F.relu(self.a(x))))))], 1)


def densenet(depths=(6, 12, 24, 16)):
    layers, c = [ConvNorm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
    for i, n in enumerate(depths):
        layers += [Dense(c + 32 * j) for j in range(n)]
        c += 32 * n
        if i < len(depths) - 1:
            layers += [nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, c // 2, 1, bias=False), nn.AvgPool2d(2)]
            c //= 2
    return nn.Sequential(*layers, nn.BatchNorm2d(c), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 1000))


class UNet(nn.Module):
    def __init__(self, widths=(32, 64, 128, 256)):
        super().__init__()
        two = lambda c, k: nn.Sequential(ConvNorm(c, k, 3), ConvNorm(k, k, 3))
        self.down = nn.ModuleList(two(c, k) for c, k in zip((3, *widths), widths))
        self.middle = two(widths[-1], 2 * widths[-1])
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * k, k, 2, 2) for k in reversed(widths))
        self.merge = nn.ModuleList(two(2 * k, k) for k in reversed(widths))
        self.last = nn.Conv2d(widths[0], 5, 1)

    def forward(self, x):
        kept = []
        for d in self.down:
            x = d(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for u, m in zip(self.up, self.merge):
            x = m(torch.cat([u(x), kept.pop()], 1))
        return self.last(x)


class ChannelNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, self.n = nn.Conv2d(c, c, 7, padding=3, groups=c), nn.LayerNorm(c)
        self.a, self.b = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
        self.scale = nn.Parameter(torch.ones(c))

    def forward(self, x):
        y = self.b(F.gelu(self.a(self.n(self.c(x).permute(0, 2, 3, 1)))))
        return x + (self.scale * y).permute(0, 3, 1, 2)


def convnext(depths=(3, 3, 9, 3)):
    layers = [nn.Conv2d(3, 96, 4, 4), ChannelNorm(96)]
    for i, n in enumerate(depths):
        layers += [ConvNextBlock(96 << i) for _ in range(n)]
        if i < 3:
            layers += [ChannelNorm(96 << i), nn.Conv2d(96 << i, 192 << i, 2, 2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(768), nn.Linear(768, 1000))


class Fire(nn.Module):
    def __init__(self, c, s, e):
        super().__init__()
        self.s, self.a, self.b = nn.Conv2d(c, s, 1), nn.Conv2d(s, e, 1), nn.Conv2d(s, e, 3, padding=1)

    def forward(self, x):
        x = F.relu(self.s(x))
        return torch.cat([F.relu(self.a(x)), F.relu(self.b(x))], 1)


def squeezenet():
    pool = lambda: nn.MaxPool2d(3, 2, ceil_mode=True)
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, 2), nn.ReLU(), pool(), Fire(64, 16, 64), Fire(128, 16, 64), pool(), Fire(128, 32, 128),
        Fire(256, 32, 128), pool(), Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), Fire(512, 64, 256),
        nn.Conv2d(512, 1000, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )


class Shuffle(nn.Module):
    """A unit of ShuffleNetV2: half of the channels go by, or both halves at stride 2."""

    def __init__(self, c, k, stride):
        super().__init__()
        self.stride, h = stride, k // 2
        a = c if stride == 2 else c // 2
        self.body = nn.Sequential(ConvNorm(a, h), ConvNorm(h, h, 3, stride, h, None), ConvNorm(h, h))
        self.skip = nn.Sequential(ConvNorm(c, c, 3, 2, c, None), ConvNorm(c, h)) if stride == 2 else None

    def forward(self, x):
        p, q = (x, x) if self.stride == 2 else x.chunk(2, 1)
        y = torch.cat([self.skip(p) if self.skip else p, self.body(q)], 1)
        b, c, h, w = y.shape
        return y.view(b, 2, c // 2, h, w).transpose(1, 2).reshape(b, c, h, w)


def shufflenet():
    layers, c = [ConvNorm(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)], 24
    for k, n in ((116, 4), (232, 8), (464, 4)):
        for i in range(n):
            layers.append(Shuffle(c, k, 2 if i == 0 else 1))
            c = k
    return nn.Sequential(*layers, ConvNorm(c, 1024), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 1000))


class Block(nn.Module):
    """A pre-norm transformer block; `causal` hides what comes later."""

    def __init__(self, width, heads, causal=False, inner=4):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.a, self.b = nn.Linear(width, inner * width), nn.Linear(inner * width, width)

    def forward(self, x):
        b, s, w = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, s, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-1, -2) / math.sqrt(w // self.heads)
        if self.causal:
            scores = scores.masked_fill(torch.ones(s, s, dtype=torch.bool, device=x.device).triu(1), -1e9)
        y = (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(b, s, w)
        x = x + self.o(y)
        return x + self.b(F.gelu(self.a(self.n2(x))))


def attend(q, k, v, causal=False):
    """PyTorch's own attention, exported as its operations in the dtype of its inputs (the exporter's own go on in f32)."""
    if not torch.onnx.is_in_onnx_export():
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        n = q.shape[-2]
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool, device=q.device).triu(1), -math.inf)
    return torch.softmax(scores, -1) @ v


class Attention(nn.Module):
    """Causal attention, with fewer heads of keys than of queries, and rotated positions where `rotary`."""

    def __init__(self, width, heads, shared, positions, bias, rotary):
        super().__init__()
        self.heads, self.shared, d = heads, shared, width // heads
        self.q, self.o = nn.Linear(width, width, bias), nn.Linear(width, width, bias)
        self.k, self.v = nn.Linear(width, shared * d, bias), nn.Linear(width, shared * d, bias)
        self.rotary = rotary
        if rotary:
            angles = torch.outer(torch.arange(positions), 500000.0 ** -(torch.arange(0, d, 2) / d))
            self.register_buffer("cos", angles.cos().repeat(1, 2))
            self.register_buffer("sin", angles.sin().repeat(1, 2))

    def turned(self, x):
        a, b = x.chunk(2, -1)
        return x * self.cos + torch.cat([-b, a], -1) * self.sin if self.rotary else x

    def forward(self, x):
        b, s, w = x.shape
        rows = lambda y, heads: y.view(b, s, heads, -1).transpose(1, 2)
        q, k = self.turned(rows(self.q(x), self.heads)), self.turned(rows(self.k(x), self.shared))
        v = rows(self.v(x), self.shared)
        if self.shared < self.heads:
            k, v = (y.repeat_interleave(self.heads // self.shared, 1) for y in (k, v))
        return self.o(attend(q, k, v, True).transpose(1, 2).reshape(b, s, w))


class GptBlock(nn.Module):
    def __init__(self, width, heads, positions):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.at = Attention(width, heads, heads, positions, True, False)
        self.a, self.b = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.at(self.n1(x))
        return x + self.b(F.gelu(self.a(self.n2(x))))


class Gpt(nn.Module):
    """GPT-2 of 124M parameters and its loss over a vocabulary of 50257 words, whose table is the last product's too."""

    def __init__(self, width=768, heads=12, depth=12, positions=1024, words=50257):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(positions, width)
        self.body = nn.Sequential(*(GptBlock(width, heads, positions) for _ in range(depth)), nn.LayerNorm(width))

    def forward(self, tokens, labels):
        x = self.body(self.words(tokens) + self.places.weight)
        return F.cross_entropy((x @ self.words.weight.t()).float().flatten(0, 1), labels.flatten())


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        y = x.float()
        return (y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight


class LlamaBlock(nn.Module):
    def __init__(self, width=4096, heads=32, shared=8, inner=14336, positions=2048):
        super().__init__()
        self.n1, self.n2 = RmsNorm(width), RmsNorm(width)
        self.at = Attention(width, heads, shared, positions, False, True)
        self.a, self.g, self.b = nn.Linear(width, inner, False), nn.Linear(width, inner, False), nn.Linear(inner, width, False)

    def forward(self, x):
        x = x + self.at(self.n1(x))
        y = self.n2(x)
        return x + self.b(F.silu(self.g(y)) * self.a(y))


class Diffusion(nn.Module):
    """A stage of a latent diffusion model's U-Net: residual blocks under group normalisation that take a step's embedding, attention over positions and to a text."""

    def __init__(self, c=320, text=768, step=1280, heads=8):
        super().__init__()
        self.heads = heads
        self.n1, self.n2, self.n3 = (nn.GroupNorm(32, c) for _ in range(3))
        self.c1, self.c2, self.t = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1), nn.Linear(step, c)
        self.l1, self.l2, self.l3 = (nn.LayerNorm(c) for _ in range(3))
        self.q1, self.k1, self.v1, self.o1 = (nn.Linear(c, c, False) for _ in range(4))
        self.q2, self.o2 = (nn.Linear(c, c, False) for _ in range(2))
        self.k2, self.v2 = (nn.Linear(text, c, False) for _ in range(2))
        self.a, self.b = nn.Linear(c, 8 * c), nn.Linear(4 * c, c)

    def attend(self, q, k, v):
        rows = lambda y: y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return attend(rows(q), rows(k), rows(v)).transpose(1, 2).flatten(2)

    def forward(self, x, step, text):
        y = self.c1(F.silu(self.n1(x))) + self.t(F.silu(step))[:, :, None, None]
        x = x + self.c2(F.silu(self.n2(y)))
        y = self.n3(x).flatten(2).transpose(1, 2)
        n = self.l1(y)
        y = y + self.o1(self.attend(self.q1(n), self.k1(n), self.v1(n)))
        y = y + self.o2(self.attend(self.q2(self.l2(y)), self.k2(text), self.v2(text)))
        a, g = self.a(self.l3(y)).chunk(2, -1)
        return x + self.b(a * F.gelu(g)).transpose(1, 2).reshape(x.shape)


class Vit(nn.Module):
    def __init__(self, width=384, heads=6, depth=12):
        super().__init__()
        self.c = nn.Conv2d(3, width, 16, 16)
        self.at = nn.Parameter(torch.zeros(1, 196, width))
        self.body = nn.Sequential(*(Block(width, heads) for _ in range(depth)), nn.LayerNorm(width))
        self.o = nn.Linear(width, 1000)

    def forward(self, x):
        return self.o(self.body(self.c(x).flatten(2).transpose(1, 2) + self.at).mean(1))


class Mixer(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.a, self.b = nn.Linear(tokens, 256), nn.Linear(256, tokens)
        self.c, self.d = nn.Linear(width, 2048), nn.Linear(2048, width)

    def forward(self, x):
        x = x + self.b(F.gelu(self.a(self.n1(x).transpose(1, 2)))).transpose(1, 2)
        return x + self.d(F.gelu(self.c(self.n2(x))))


class Windowed(nn.Module):
    """Attention in windows of 7 x 7 of positions that are moved by 3, with relative biases, as in Swin."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.n, self.qkv, self.o = heads, nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.zeros(heads, 49, 49))
        self.m, self.a, self.b = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, h, w, c = x.shape
        y = torch.roll(self.n(x), (-3, -3), (1, 2))
        y = y.view(b, h // 7, 7, w // 7, 7, c).transpose(2, 3).reshape(-1, 49, c)
        q, k, v = self.qkv(y).view(-1, 49, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        p = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(c // self.heads) + self.bias, -1)
        y = self.o((p @ v).transpose(1, 2).reshape(-1, 49, c))
        y = y.view(b, h // 7, w // 7, 7, 7, c).transpose(2, 3).reshape(b, h, w, c)
        x = x + torch.roll(y, (3, 3), (1, 2))
        return x + self.b(F.gelu(self.a(self.m(x))))


def generator():
    layers, c = [nn.Linear(128, 512 * 16), nn.Unflatten(1, (512, 4, 4))], 512
    for k in (256, 128, 64, 32):
        layers += [nn.ConvTranspose2d(c, k, 4, 2, 1, bias=False), nn.BatchNorm2d(k), nn.LeakyReLU(0.2)]
        c = k
    return nn.Sequential(*layers, nn.ConvTranspose2d(c, 3, 4, 2, 1), nn.Tanh())


def tcn():
    layers = []
    for i in range(6):
        layers += [nn.Conv1d(64, 64, 3, padding=1 << i, dilation=1 << i), nn.BatchNorm1d(64), nn.GELU()]
    return nn.Sequential(nn.Conv1d(2, 64, 7, padding=3), *layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 10))


def network(name, make, *shapes):
    add(name, lambda s, *x: s.m(*x), [list(s) for s in shapes], m=make)


for b in (1, 16, 64):
    network(f"resnet50_b{b}", resnet, (b, 3, 224, 224))
for b in (1, 16):
    network(f"resnext50_b{b}", lambda: resnet(groups=32, width=128), (b, 3, 224, 224))
for b in (1, 32):
    network(f"mobilenet_b{b}", mobilenet, (b, 3, 224, 224))
network("efficientnet_b16", efficientnet, (16, 3, 224, 224))
network("vgg16_b4", vgg, (4, 3, 224, 224))
network("densenet_b8", densenet, (8, 3, 224, 224))
network("unet_b2", UNet, (2, 3, 256, 320))
network("convnext_b8", convnext, (8, 3, 224, 224))
network("squeezenet_b16", squeezenet, (16, 3, 224, 224))
network("shufflenet_b32", shufflenet, (32, 3, 224, 224))
network("vit_b16", Vit, (16, 3, 224, 224))
network("bert_b8", lambda: nn.Sequential(*(Block(768, 12) for _ in range(12))), (8, 128, 768))
network("gpt_b2", lambda: nn.Sequential(*(Block(768, 12, True) for _ in range(12))), (2, 1024, 768))
network("gpt125m_b8", Gpt, ("int:50257", 8, 1024), ("int:50257", 8, 1024))
network("llama_b4", LlamaBlock, (4, 2048, 4096))
network("diffusion_b4", Diffusion, (4, 320, 64, 64), (4, 1280), (4, 77, 768))
network("mixer_b16", lambda: nn.Sequential(*(Mixer(196, 512) for _ in range(8))), (16, 196, 512))
network("swin_b8", lambda: nn.Sequential(*(Windowed(96, 3) for _ in range(4))), (8, 56, 56, 96))
network("generator_b32", generator, (32, 128))
network("tcn_b16", tcn, (16, 2, 4096))
add("lstm_b10", lambda s, x: s.o(s.l(x)[0][:, -1]), [[10, 256, 128]], l=layer(nn.LSTM, 128, 256, 2, batch_first=True), o=layer(nn.Linear, 256, 10))
add("gru_b10", lambda s, x: s.l(x)[0], [[10, 256, 128]], l=layer(nn.GRU, 128, 256, 2, batch_first=True))

if __name__ == "__main__":
    main()
