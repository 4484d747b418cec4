"""Programs beside those of KernelBench: odd sizes, few channels, batches of one, and what follows them in networks.

python3 problems.py export DIR [NAMES]         writes DIR/onnx/NAME.onnx and DIR/manifest.json, with parameters as inputs, for `gpu-check --parts kernelbench --problems DIR`
python3 problems.py time DIR OUT.json [NAMES]  PyTorch, eager, in CUDA graphs and by Inductor, ms a call, and 64 elements of each result

NAMES: parts of names, with commas between. Without Inductor, which takes a minute for a network: INDUCTOR=0. Exported with TRAIN=1, a problem is a
step of training: the mean of its result times numbers of [-1, 1), the gradients in all parameters, batch normalisation by the batch's moments.
Inputs and parameters are f32, or with DTYPE=bf16 or f16 those.

Inputs and parameters are those of kernelbench.mjs: element i of tensor k comes from a hash of i + 7919 k + 13.
"""
import gc
import json
import os
import sys
import time
import warnings

import onnx
import torch
import torch.nn.functional as F
from torch import nn

warnings.filterwarnings("ignore")

NAME = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}[os.environ.get("DTYPE", "f32")]
DTYPE = getattr(torch, NAME)


class Problem(nn.Module):
    """A function of its own layers and of inputs."""

    def __init__(self, f, layers):
        super().__init__()
        for name, make in layers.items():
            setattr(self, name, make())
        self.f = f

    def forward(self, *inputs):
        return self.f(self, *inputs)


PROBLEMS = {}


def add(name, f, shapes, **layers):
    PROBLEMS[name] = (f, shapes, layers)


def layer(kind, *args, **options):
    return lambda: kind(*args, **options)


def one(s, x):
    return s.c(x)


add('c01_b1_3x3_224', one, [[1,64,224,224]], c=layer(nn.Conv2d,64,64,3,padding=1))
add('c02_b1_3x3_14', one, [[1,256,14,14]], c=layer(nn.Conv2d,256,256,3,padding=1))
add('c03_b1_1x1_7', one, [[1,512,7,7]], c=layer(nn.Conv2d,512,2048,1))
add('c04_odd_3x5', one, [[16,31,97,101]], c=layer(nn.Conv2d,31,45,(3,5)))
add('c05_stem_513', one, [[8,3,513,513]], c=layer(nn.Conv2d,3,24,5,stride=2,padding=2))
add('c06_1d_k7', one, [[16,48,30001]], c=layer(nn.Conv1d,48,96,7,padding=3))
add('c07_1d_k400', one, [[4,1,160000]], c=layer(nn.Conv1d,1,32,400,stride=160))
add('c08_3d_6ch', one, [[4,6,24,96,96]], c=layer(nn.Conv3d,6,20,3))
add('c09_3d_133', one, [[2,32,17,63,65]], c=layer(nn.Conv3d,32,48,(1,3,3),padding=(0,1,1)))
add('c10_dw7', one, [[8,96,112,112]], c=layer(nn.Conv2d,96,96,7,padding=3,groups=96))
add('c11_dw3s2_b1', one, [[1,384,56,56]], c=layer(nn.Conv2d,384,384,3,stride=2,padding=1,groups=384))
add('c12_group32', one, [[16,128,56,56]], c=layer(nn.Conv2d,128,128,3,padding=1,groups=32))
add('c13_dil6', one, [[4,64,129,129]], c=layer(nn.Conv2d,64,64,3,padding=6,dilation=6))
add('c14_t2_k4s2', one, [[8,64,96,96]], c=layer(nn.ConvTranspose2d,64,32,4,stride=2,padding=1))
add('c15_t2_k3s3', one, [[4,48,60,61]], c=layer(nn.ConvTranspose2d,48,24,3,stride=3))
add('c16_t1_k16s8', one, [[8,96,5000]], c=layer(nn.ConvTranspose1d,96,48,16,stride=8,padding=4))
add('c17_t3_s2', one, [[2,24,12,40,40]], c=layer(nn.ConvTranspose3d,24,16,3,stride=2,padding=1,output_padding=1))
add('c18_1x1_75', one, [[8,144,75,75]], c=layer(nn.Conv2d,144,24,1))
add('c19_t2_g4', one, [[16,64,64,64]], c=layer(nn.ConvTranspose2d,64,64,(3,5),padding=(1,2),groups=4))
add('c20_11x11s4', one, [[64,3,227,227]], c=layer(nn.Conv2d,3,64,11,stride=4))
add('c21_b1_3x3_56', one, [[1,64,56,56]], c=layer(nn.Conv2d,64,64,3,padding=1))
add('c22_b2_3x3_28', one, [[2,128,28,28]], c=layer(nn.Conv2d,128,128,3,padding=1))
add('c23_b1_127_41', one, [[1,32,127,127]], c=layer(nn.Conv2d,32,41,3))
add('f01_stem', lambda s,x: F.max_pool2d(F.relu(s.b(s.c(x))),3,2,1), [[32,3,224,224]], c=layer(nn.Conv2d,3,64,7,stride=2,padding=3,bias=False), b=layer(nn.BatchNorm2d,64))
add('f02_gn_silu', lambda s,x: F.silu(s.g(s.c(x))), [[8,128,64,64]], c=layer(nn.Conv2d,128,128,3,padding=1), g=layer(nn.GroupNorm,32,128))
add('f03_in_leaky', lambda s,x: F.leaky_relu(F.instance_norm(s.c(x))), [[4,32,250,250]], c=layer(nn.Conv2d,32,64,3))
add('f04_gelu_gap', lambda s,x: F.gelu(s.c(x)).mean((2,3)), [[32,24,96,96]], c=layer(nn.Conv2d,24,80,3))
add('f05_3d_lse', lambda s,x: torch.tanh(torch.logsumexp(s.c(x),1,keepdim=True)), [[8,5,20,50,50]], c=layer(nn.Conv3d,5,24,3))
add('f06_softmax_c', lambda s,x: torch.sigmoid(torch.softmax(s.c(x),1)), [[16,40,90,90]], c=layer(nn.Conv2d,40,21,3))
add('f07_min_c', lambda s,x: torch.tanh(torch.min(s.c(x),1,keepdim=True)[0]), [[64,16,100,100]], c=layer(nn.Conv2d,16,50,3))
add('f08_t2_pool', lambda s,x: torch.clamp(F.avg_pool2d(s.c(x),2),0,1), [[16,32,50,50]], c=layer(nn.ConvTranspose2d,32,32,4,stride=2,padding=1))
add('f09_t3_gn', lambda s,x: F.hardswish(s.g(s.c(x))), [[8,16,12,24,24]], c=layer(nn.ConvTranspose3d,16,32,4,stride=2,padding=1), g=layer(nn.GroupNorm,4,32))


def bottleneck(s, x):
    y = F.relu(s.b1(s.c1(x)))
    y = F.relu(s.b2(s.c2(y)))
    return F.relu(x + s.b3(s.c3(y)))


BOTTLENECK = dict(c1=layer(nn.Conv2d,256,64,1,bias=False),b1=layer(nn.BatchNorm2d,64),c2=layer(nn.Conv2d,64,64,3,padding=1,bias=False),b2=layer(nn.BatchNorm2d,64),c3=layer(nn.Conv2d,64,256,1,bias=False),b3=layer(nn.BatchNorm2d,256))
add('f10_bottleneck_b1', bottleneck, [[1,256,56,56]], **BOTTLENECK)
add('f11_bottleneck_b16', bottleneck, [[16,256,56,56]], **BOTTLENECK)


def mobile(s, x):
    y = F.relu6(s.b2(s.c2(F.relu6(s.b1(s.c1(x))))))
    y = y * torch.sigmoid(s.s2(F.relu(s.s1(y.mean((2, 3), keepdim=True)))))
    return x + s.b3(s.c3(y))


add('f12_mbconv', mobile, [[8,40,56,56]], c1=layer(nn.Conv2d,40,240,1,bias=False),b1=layer(nn.BatchNorm2d,240),c2=layer(nn.Conv2d,240,240,5,padding=2,groups=240,bias=False),b2=layer(nn.BatchNorm2d,240),s1=layer(nn.Conv2d,240,10,1),s2=layer(nn.Conv2d,10,240,1),c3=layer(nn.Conv2d,240,40,1,bias=False),b3=layer(nn.BatchNorm2d,40))
add('f13_convnext', lambda s,x: x + s.l2(F.gelu(s.l1(s.n(s.c(x).permute(0,2,3,1))))).permute(0,3,1,2), [[4,96,56,56]], c=layer(nn.Conv2d,96,96,7,padding=3,groups=96), n=layer(nn.LayerNorm,96), l1=layer(nn.Linear,96,384), l2=layer(nn.Linear,384,96))
add('f14_up_conv', lambda s,x: F.relu(s.c(F.interpolate(x,scale_factor=2,mode='nearest'))), [[4,64,48,48]], c=layer(nn.Conv2d,64,32,3,padding=1))
add('f15_conv_ln', lambda s,x: F.layer_norm(s.c(x),(60,62)), [[8,24,62,64]], c=layer(nn.Conv2d,24,40,3))
add('f16_t2_mish_pool', lambda s,x: F.max_pool2d(F.mish(s.c(x)),2), [[8,32,60,60]], c=layer(nn.ConvTranspose2d,32,48,3,stride=2,padding=1,output_padding=1))
add('g01_mlp', lambda s,x: s.b(F.gelu(s.a(x))), [[37,1000]], a=layer(nn.Linear,1000,4000), b=layer(nn.Linear,4000,1000))
add('g02_gn_swish', lambda s,x: F.silu(s.g(s.a(x))), [[333,2047]], a=layer(nn.Linear,2047,2048), g=layer(nn.GroupNorm,16,2048))
add('g03_softmax', lambda s,x: torch.softmax(s.a(x),1), [[700,3000]], a=layer(nn.Linear,3000,5001))
add('g04_lse', lambda s,x: F.mish(torch.logsumexp(s.a(x),1,keepdim=True)), [[1000,1999]], a=layer(nn.Linear,1999,4097))
add('g05_ln_res', lambda s,x: x + s.n(s.a(x)), [[4096,768]], a=layer(nn.Linear,768,768), n=layer(nn.LayerNorm,768))
add('g06_vit_att', lambda s,q,k,v: torch.softmax(q@k.transpose(1,2)*0.125,-1)@v, [[48,197,64]]*3)
add('g07_matvec', lambda s,x,w: x@w, [[1,4099],[4099,11007]])
add('g08_small_k', lambda s,x,w: x@w, [[5000,5],[5,7001]])
add('g09_large_k', lambda s,x,w: x@w, [[130,200001],[200001,130]])
add('g10_tn', lambda s,x,w: x.t()@w, [[3001,1501],[3001,2001]])
add('g11_pool_sum', lambda s,x: F.max_pool1d(s.a(x).unsqueeze(1),2).squeeze(1).sum(1), [[257,5000]], a=layer(nn.Linear,5000,3000))
add('g12_einsum', lambda s,x,w: torch.einsum('bijl,lk->bijk',x,w), [[3,57,101,300],[300,190]])
add('g13_bmm_bias', lambda s,x,w: F.relu(x@w)+1.0, [[30,100,77],[30,77,130]])
add('g14_nt_mask', lambda s,x,w: torch.tril(x@w.t()), [[2001,600],[2001,600]])
add('m01_softmax_1', lambda s,x: torch.softmax(x,1), [[33,1000,313]])
add('m02_ln_2', lambda s,x: F.layer_norm(x,(1023,511)), [[77,1023,511]])
add('m03_in', lambda s,x: F.instance_norm(x), [[16,37,301,299]])
add('m04_gn', lambda s,x: s.g(x), [[6,60,127,129]], g=layer(nn.GroupNorm,5,60))
add('m05_maxpool', lambda s,x: F.max_pool2d(x,3,2,1), [[8,48,301,299]])
add('m06_avgpool3', lambda s,x: F.avg_pool3d(x,3,2), [[4,24,50,60,70]])
add('m07_cumsum_1', lambda s,x: torch.cumsum(x,1), [[1999,5003]])
add('m08_cumsum_0', lambda s,x: torch.cumsum(x,0), [[60000,77]])
add('m10_argmax_1', lambda s,x: torch.argmax(x,1), [[50,4001,301]])
add('m11_l2', lambda s,x: x/torch.norm(x,2,1,keepdim=True), [[6000,10001]])
add('m14_logsoftmax', lambda s,x: F.log_softmax(x,1), [[3001,7003]])
add('m15_bn', lambda s,x: s.b(x), [[16,99,150,150]], b=layer(nn.BatchNorm2d,99))
add('m16_min_2', lambda s,x: torch.min(x,2)[0], [[40,301,2003]])
add('m17_cos', lambda s,x,y: torch.mean(1-(x*y).sum(1)/(x.norm(2,1)*y.norm(2,1))), [[5003,2001],[5003,2001]])
add('m18_gap', lambda s,x: x.mean((2,3)), [[16,150,63,65]])
add('m19_rms_1', lambda s,x: x*torch.rsqrt((x*x).mean(1,keepdim=True)+1e-5), [[9,75,513,129]])
add('m20_std_0', lambda s,x: (x-x.mean(0))/(((x-x.mean(0))**2).mean(0)+1e-5).sqrt(), [[5000,301]])


def build(name):
    f, shapes, layers = PROBLEMS[name]
    with torch.device("cuda"):
        return Problem(f, layers).eval().to(DTYPE), [input_of(s) for s in shapes]


def input_of(shape):
    """Shape, dtype and kind of an input: numbers of [0, 1), or whole ones where the shape begins with `int:N`, below N."""
    if isinstance(shape[0], str):
        return dict(shape=shape[1:], dtype="int64", kind=shape[0])
    return dict(shape=shape, dtype=NAME, kind="rand")


def make_input(s, k):
    if s["kind"] == "rand":
        return make(s["shape"], k, 0, 1)
    return (make(s["shape"], k, 0, 1, torch.float) * float(s["kind"][4:])).floor().long()


def make(shape, k, low, high, dtype=DTYPE):
    n = 1
    for s in shape:
        n *= s
    out = torch.empty(n, device="cuda")
    chunk = 1 << 27
    for a in range(0, n, chunk):
        b = min(n, a + chunk)
        h = ((torch.arange(a, b, device="cuda", dtype=torch.int64) + 7919 * k + 13) * 2654435761) & 0xFFFFFFFF
        h = ((h ^ (h >> 15)) * 2246822519) & 0xFFFFFFFF
        h = h ^ (h >> 13)
        out[a:b] = (h >> 8).float() * (2**-24 * (high - low)) + low
    return out.reshape(list(shape)).to(dtype)


def range_of(name, p):
    """Where a parameter's values lie: variances are positive, scales near one, weights by the size of what they multiply."""
    if "running_var" in name:
        return 0.5, 1.5
    if p.dim() > 1:
        most = p[0].numel() ** -0.5
        return -most, most
    return (0.9, 1.1) if name.endswith("weight") else (-0.1, 0.1)


def chosen(names):
    return [n for n in PROBLEMS if any(part in n for part in names.split(","))]


def export(folder, names=""):
    os.makedirs(f"{folder}/onnx", exist_ok=True)
    manifest = {}
    for name in chosen(names):
        m, specs = build(name)
        parameters = dict(m.state_dict(keep_vars=True))
        for p in parameters.values():
            if p.is_floating_point():
                p.data.uniform_(0.5, 1.5)
        inputs = [f"x{i}" for i in range(len(specs))]
        values = tuple(make_input(s, k) for k, s in enumerate(specs))
        path = f"{folder}/onnx/{name}.onnx"
        torch.onnx.export(
            m,
            values,
            path,
            input_names=inputs,
            export_params=False,
            dynamo=False,
            opset_version=18,
            do_constant_folding=False,
        )
        model = onnx.load(path)
        graph = model.graph
        weights = []
        for i in graph.input:
            if i.name in parameters:
                low, high = range_of(i.name, parameters[i.name])
                shape = list(parameters[i.name].shape)
                weights.append(dict(name=i.name, shape=shape, dtype=NAME, kind="weight", low=low, high=high))
        training = {}
        if os.environ.get("TRAIN") == "1":
            for n in graph.node:
                for a in n.attribute:
                    if a.name == "training_mode":
                        a.i = 1
            onnx.save(model, path)
            trained = [w["name"] for w in weights if parameters[w["name"]].requires_grad]
            with torch.no_grad():
                shape = list(m(*values).shape)
            training = dict(train=dict(parameters=trained, target=shape))
        manifest[name] = dict(
            **training,
            inputs=[dict(name=n, **s) for n, s in zip(inputs, specs)],
            weights=weights,
            ops=sorted({n.op_type for n in graph.node}),
        )
    with open(f"{folder}/manifest.json", "w") as file:
        json.dump(manifest, file)


def milliseconds(f):
    f()
    torch.cuda.synchronize()
    start, end = torch.cuda.Event(True), torch.cuda.Event(True)

    def run(calls):
        start.record()
        for _ in range(calls):
            f()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / calls

    calls = max(1, min(50, int(30 / max(run(1), 1e-3))))
    times, begun = [], time.time()
    while len(times) < 3 or (len(times) < 9 and time.time() - begun < 0.2):
        times.append(run(calls))
    return sorted(times)[len(times) // 2]


def graphed(f, inputs):
    """A function that replays `f` of these inputs as a CUDA graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            f(*inputs)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        f(*inputs)
    return graph.replay


def step(m, parameters, target):
    """A function of inputs: a loss and its gradients."""

    def run(*inputs):
        with torch.enable_grad():
            loss = (m(*inputs) * target).mean()
            return loss.detach(), *torch.autograd.grad(loss, parameters)

    return run


def measure(folder, out, names=""):
    with open(f"{folder}/manifest.json") as file:
        manifest = json.load(file)
    results = {}
    for name in (n for n in chosen(names) if n in manifest):
        meta = manifest[name]
        m, _ = build(name)
        parameters = m.state_dict(keep_vars=True)
        inputs = [make_input(s, k) for k, s in enumerate(meta["inputs"])]
        for k, s in enumerate(meta["weights"]):
            parameters[s["name"]].data.copy_(make(s["shape"], len(inputs) + k, s["low"], s["high"]))
        with torch.no_grad():
            train = meta.get("train")
            call = m
            if train:
                target = make(train["target"], len(inputs) + len(meta["weights"]), -1, 1)
                differentiated = [parameters[n] for n in train["parameters"]]
                m.train()
                call = step(m, differentiated, target)
            result = call(*inputs)
            y = (result[1] if train else result).reshape(-1).float()
            n = y.numel()
            at = [(i * (n - 1)) // max(1, min(64, n) - 1) for i in range(min(64, n))]
            sample = y[torch.tensor(at, device="cuda")].tolist()
            times = dict(eager=milliseconds(lambda: call(*inputs)), graph=milliseconds(graphed(call, inputs)))
            if os.environ.get("INDUCTOR") != "0":
                compiled = torch.compile(m, dynamic=False)
                if train:
                    compiled = step(compiled, differentiated, target)
                times["inductor"] = milliseconds(lambda: compiled(*inputs))
        results[name] = dict(sample=sample, **times)
        torch._dynamo.reset()
        compiled = call = differentiated = target = result = None
        del m, parameters, inputs, y
        gc.collect()
        torch.cuda.empty_cache()
        with open(out, "w") as file:
            json.dump(results, file)


def main():
    (export if sys.argv[1] == "export" else measure)(*sys.argv[2:])


if __name__ == "__main__":
    main()
