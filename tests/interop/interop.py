"""Checkpoints and adapters between this program and transformers / peft.

Run by `cargo xtask interop`, which prepares the environment and passes the paths. Every check prints one line; the first
that fails ends the run with an error.
"""

import argparse
import json
import pathlib
import subprocess

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM


def tensors(folder):
    found = {}
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in file.keys():
                assert name not in found, f"{name} is in two files"
                found[name] = file.get_tensor(name)
    return found


def check(text, good):
    print(("ok    " if good else "FAIL  ") + text, flush=True)
    if not good:
        raise SystemExit(1)


def load(folder, dtype):
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, output_loading_info=True)
    return model.eval(), info


def reread(model, files):
    """Pitfall B01: some versions of transformers run the initialiser again after loading and overwrite two kinds of tensors.
    They are taken from the files; that all tensors then equal the files is checked before anything is compared."""
    changed = 0
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("dt_bias") or name.endswith("out_proj.weight"):
                stored = files[name.replace("model.", "backbone.", 1)].to(parameter.dtype)
                changed += int(not torch.equal(parameter, stored))
                parameter.copy_(stored)
    return changed


def native_name(name):
    return name.replace("model.", "backbone.", 1) if name.startswith("model.") else name


def split_experts(state):
    """The state of transformers' own class under the names of the files."""
    out = {}
    for name, value in state.items():
        name = native_name(name)
        if name.endswith(("experts.up_proj", "experts.down_proj")):
            stem, matrix = name.rsplit(".", 1)
            for e in range(value.shape[0]):
                out[f"{stem}.{e}.{matrix}.weight"] = value[e]
        else:
            out[name] = value
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--rewrite-adapter", required=True)
    parser.add_argument("--golden", required=True, help="folder with tiny/ and tiny_forward.safetensors")
    parser.add_argument("--work", required=True)
    args = parser.parse_args()
    work, golden = pathlib.Path(args.work), pathlib.Path(args.golden)
    tiny = golden / "tiny"

    def run(*words, program=args.program):
        subprocess.run([program, *map(str, words)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    run("import", "--hf-model", tiny, "--checkpoint-path", work / "ours")
    run("export", "--checkpoint-path", work / "ours", "--hf-path", work / "out", "--max-shard-size", 100_000)
    before, after = tensors(tiny), tensors(work / "out")
    same = before.keys() == after.keys() and all(
        before[n].dtype == after[n].dtype and torch.equal(before[n], after[n]) for n in before
    )
    check(f"{len(after)} exported tensors equal the source in name, type and value", same)

    model, info = load(work / "out", torch.float32)
    check(f"loads as {type(model).__name__}", type(model).__name__ == "NemotronHForCausalLM")
    check("no missing keys", not info["missing_keys"])
    check("no unexpected keys but mtp.*", all(k.startswith("mtp.") for k in info["unexpected_keys"]))
    changed = reread(model, after)
    print(f"      {changed} of dt_bias and out_proj.weight had been overwritten while loading, and were read again")
    stored = split_experts(model.state_dict())
    check("every loaded tensor equals the file",
          all(torch.equal(v, after[n].to(v.dtype)) for n, v in stored.items()))

    values = load_file(golden / "tiny_forward.safetensors")
    with torch.no_grad():
        logits = model(input_ids=values["input_ids"].long()).logits
    distance = (logits - values["logits"]).norm() / values["logits"].norm()
    check(f"logits within 1e-5 of the golden ones: {distance:.2e}", distance < 1e-5)

    model, _ = load(work / "out", "auto")
    reread(model, after)
    model.save_pretrained(work / "saved")
    run("import", "--hf-model", work / "saved", "--checkpoint-path", work / "again", "--not-strict")
    run("export", "--checkpoint-path", work / "again", "--hf-path", work / "back")
    saved, back = tensors(work / "saved"), tensors(work / "back")
    check("what transformers saves is read and comes back in name, type and value",
          saved.keys() == back.keys() and all(
              v.dtype == back[n].dtype and torch.equal(v, back[n]) for n, v in saved.items()))
    wanted = {n: v for n, v in before.items() if not n.startswith("mtp.")}
    check("it has the names of the files without mtp.*", wanted.keys() == saved.keys())
    # In bf16 transformers narrows A_log and D, which the files have in f32.
    check("and their values, rounded to the types that transformers uses",
          all(torch.equal(v.to(saved[n].dtype), saved[n]) for n, v in wanted.items()))

    adapters(args, run, work, after)


def adapters(args, run, work, base):
    from peft import LoraConfig, PeftModel, get_peft_model

    def fresh():
        model, _ = load(work / "out", torch.float32)
        reread(model, base)
        return model

    # peft refuses out_proj and conv1d of Mamba models; adapters of out_proj reach transformers only merged.
    config = LoraConfig(
        r=3, lora_alpha=6, lora_dropout=0.0, task_type="CAUSAL_LM",
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "in_proj", "up_proj", "down_proj"],
        target_parameters=["mixer.experts.up_proj", "mixer.experts.down_proj"],
    )
    model = get_peft_model(fresh(), config)
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.copy_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(work / "adapter")
    merged = split_experts(model.merge_and_unload().state_dict())

    def compare(text, adapter):
        folder = work / ("merged-" + adapter)
        run("export", "--checkpoint-path", work / "ours", "--hf-path", folder, "--adapter", work / adapter,
            "--torch-dtype", "float32")
        ours = tensors(folder)
        worst = max((ours[n].float() - v).abs().max().item() for n, v in merged.items())
        moved = sum(not torch.equal(ours[n].float(), base[n].float()) for n in merged)
        keys = load_file(work / adapter / "adapter_model.safetensors").keys()
        check(f"{text}: {len(keys)} tensors, {moved} weights changed, largest difference {worst:.1e}",
              worst < 1e-5 and moved > 20)

    compare("peft's own adapter merges as peft merges it", "adapter")
    for flavour in ["per-module", "target-parameters"]:
        run(work / "adapter", work / flavour, flavour, program=args.rewrite_adapter)
        compare(f"written again as {flavour}", flavour)
    config = json.loads((work / "per-module" / "adapter_config.json").read_text())
    check("per-module names follow the files", any(".experts.7.up_proj.lora_A" in k for k in load_file(
        work / "per-module" / "adapter_model.safetensors")) and config["target_parameters"] is None)
    again = PeftModel.from_pretrained(fresh(), work / "target-parameters").merge_and_unload().state_dict()
    again = split_experts(again)
    worst = max((again[n] - v).abs().max().item() for n, v in merged.items())
    check(f"peft loads what is written as target-parameters: largest difference {worst:.1e}", worst < 1e-6)


if __name__ == "__main__":
    main()
