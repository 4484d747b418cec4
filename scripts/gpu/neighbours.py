"""The networks of networks.py and domains.py at sizes, widths and batches beside those that are named there: odd ones, small ones, of other proportions.

Used as problems.py is: `export DIR [NAMES]`, `time DIR OUT.json [NAMES]`; NAMES are parts of names, with commas between.
"""
import torch
from torch import nn

import domains as d
import networks as n
from networks import network
from problems import PROBLEMS, main

PROBLEMS.clear()


def stack(make, depth=2):
    return lambda: nn.Sequential(*(make() for _ in range(depth)))


def changed(make, **parameters):
    """A network with parameters of other shapes: what it adds by position, for other lengths."""

    def build():
        m = make()
        for name, shape in parameters.items():
            setattr(m, name, nn.Parameter(torch.zeros(shape)))
        return m

    return build


network("near_dlrm", lambda: d.Dlrm(11, 3001, 40), (333, 13), ("int:3001", 333, 11))
network("near_dlrm_one", d.Dlrm, (1, 13), ("int:10000", 1, 26))
network("near_nerf", lambda: d.Nerf(200), (999, 48, 3), (999, 48))
network("near_graph", lambda: d.Graph(50, 2), (9999, 50), ("int:9999", 77777), ("int:9999", 77777))
network("near_decoder", lambda: d.decoder(96), (2, 4, 40, 24))
network("near_speech", changed(lambda: d.Speech(480, 6, 2), at=(777, 480)), (3, 80, 1553))
network("near_speech_one", lambda: d.Speech(384, 6, 4), (1, 80, 3000))
network("near_translation", lambda: d.Translation(320, 5, 2), (3, 77, 320), (3, 41, 320), ("int:77", 3))
network("near_biased", stack(lambda: d.Biased(512, 8, 333)), (3, 333, 512))
network("near_retention", stack(lambda: d.Retention(768, 6)), (1, 1999, 768))
network("near_experts", lambda: d.Experts(600, 1000, 6), (777, 600))
network("near_video", d.video, (1, 3, 9, 75, 101))
network("near_points", d.Points, (5, 3, 1001))
network("near_styled", d.Styled, (3, 256, 27, 45), (3, 512))
network("near_segments", lambda: d.Segments(320, 96, 7), (2, 320, 33, 49))
network("near_larger", d.larger, (1, 3, 121, 333))
network("near_table", lambda: d.Table(13, 501, 10), (777, 100), ("int:501", 777, 13))
network("near_resnet50", n.resnet, (3, 3, 199, 233))
network("near_mobilenet", n.mobilenet, (5, 3, 160, 200))
network("near_efficientnet", n.efficientnet, (3, 3, 240, 240))
network("near_densenet", lambda: n.densenet((3, 4, 6, 4)), (3, 3, 161, 161))
network("near_unet", lambda: n.UNet((24, 48, 96, 192)), (3, 3, 144, 112))
network("near_convnext", n.convnext, (3, 3, 192, 256))
network("near_squeezenet", n.squeezenet, (5, 3, 199, 199))
network("near_shufflenet", n.shufflenet, (7, 3, 160, 192))
network("near_vit", changed(lambda: n.Vit(320, 5, 4), at=(1, 96, 320)), (7, 3, 128, 192))
network("near_bert", stack(lambda: n.Block(512, 8), 4), (5, 333, 512))
network("near_bert_one", stack(lambda: n.Block(768, 12), 4), (1, 77, 768))
network("near_gpt", lambda: n.Gpt(512, 8, 4, 999, 32001), ("int:32001", 2, 999), ("int:32001", 2, 999))
network("near_llama", lambda: n.LlamaBlock(2048, 16, 4, 5632, 1023), (1, 1023, 2048))
network("near_diffusion", lambda: n.Diffusion(192, 512, 640, 6), (3, 192, 48, 40), (3, 640), (3, 99, 512))
network("near_mixer", stack(lambda: n.Mixer(100, 384), 4), (7, 100, 384))
network("near_swin", stack(lambda: n.Windowed(160, 5)), (3, 28, 42, 160))
network("near_generator", n.generator, (5, 128))
network("near_tcn", n.tcn, (3, 2, 3001))

if __name__ == "__main__":
    main()
