//! The plan as text and as JSON.

use super::advice::{self, Knob};
use super::estimate::Estimate;
use super::targets::RECORDED_PEAKS;
use super::{PlanRequest, planner};
use crate::cli::Failure;
use lightning_core::layout::Layout;
use serde_json::json;
use std::fmt::Write;

const MIB: f64 = 1_048_576.0;
const GIB: f64 = 1024.0 * MIB;

/// A number with its thousands apart.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(c);
    }
    text
}

/// The fullest region of every part of the step, in order: what stands behind the last `/` of a region's name.
fn parts(timeline: &[(String, usize)]) -> Vec<(&str, &str, usize)> {
    let mut parts: Vec<(&str, &str, usize)> = Vec::new();
    for (region, bytes) in timeline {
        let part = region.rsplit('/').next().unwrap_or(region);
        match parts.iter_mut().find(|(name, ..)| *name == part) {
            Some(known) if known.2 >= *bytes => {}
            Some(known) => *known = (part, region, *bytes),
            None => parts.push((part, region, *bytes)),
        }
    }
    parts
}

/// What a reader has to know about the figures.
fn notes(request: &PlanRequest, target: &str, exact: bool) -> Vec<String> {
    use crate::config::choices::{PeftScheme, Precision as Class};
    let config = &request.resolved.config;
    let mut notes = Vec::new();
    if let Some(recipe) = request.resolved.recipe.filter(|r| r.machine.contains("GB300") && target == "gb200") {
        notes.push(format!("the recipe is made for {}, which has more memory than this target", recipe.machine));
    }
    if matches!(config.mixed_precision.precision, Class::Fp8Cs | Class::Fp8Mx | Class::Nvfp4) {
        let bytes = super::low_precision::bytes_per_value(config.mixed_precision.precision).unwrap_or(2.0);
        notes.push(format!(
            "products of the {} class keep their inputs as casts of {bytes:.4} bytes a value; everything else is bf16{}",
            config.mixed_precision.precision,
            if super::low_precision::mtp_stays(config) { ", the MTP block too" } else { "" }
        ));
    }
    if config.peft.scheme == Some(PeftScheme::Lora) {
        notes.push("adapters count in weights and optimizer, not in activations and FLOPs".to_string());
    }
    if !exact {
        notes.push("transients of the optimizer step and fragmentation are not counted".to_string());
    }
    notes
}

/// What a rank's memory is for, line by line.
pub(super) fn memory(e: &Estimate) -> Vec<String> {
    let (unit, divisor) = unit(e);
    let size = |bytes: f64| bytes / divisor;
    let (s, a) = (&e.statics, &e.activations);
    let mut lines = Vec::new();
    let mut line = |text: String| lines.push(text);
    line(format!("memory per rank ({unit})"));
    for (name, bytes) in [
        ("weights", s.weights),
        ("gradients", s.gradients),
        ("optimizer", s.optimizer()),
        ("  masters", s.masters),
        ("  moments", s.moments),
        ("inputs, state", s.state),
    ] {
        line(format!("  {name:28} {:9.2}", size(bytes)));
    }
    line(format!("  {:28} {:9.1}", "static sum", size(s.weights + s.gradients + s.optimizer())));
    for (kind, bytes) in &a.saved {
        line(format!("  saved for backward: {kind:20} {:9.2}", size(*bytes as f64)));
    }
    line(format!("  {:28} {:9.2}", "logits tile", size(a.logits as f64)));
    line(format!("  {:28} {:9.2}", "workspace at the peak", size(a.workspace as f64)));
    line(format!("  {:28} {:9.2}", "arena", size(e.arena)));
    for (name, bytes) in [
        ("threads' scratch", e.scratch),
        ("second engine for samples", e.sampler),
        ("copy while saving", e.snapshot),
        ("collective buffers", e.collective),
        ("context, libraries", e.reserve),
    ] {
        if bytes > 0.0 {
            line(format!("  {name:28} {:9.2}", size(bytes)));
        }
    }
    line(format!("  {:28} {:9.2}  of {:.2} ({})", "total", size(e.total()), size(e.limit), e.limit_source));
    lines
}

/// A plan of megabytes says nothing in gigabytes.
fn unit(e: &Estimate) -> (&'static str, f64) {
    if e.total() < 4.0 * GIB { ("MiB", MIB) } else { ("GiB", GIB) }
}

/// Makes the plan and writes it down.
pub(super) fn of(request: &PlanRequest) -> Result<String, Failure> {
    let planner = planner(request)?;
    let shape = planner.shape();
    let e = planner.estimate(&shape)?;
    let layout = Layout::new(&request.resolved.config.model.to_model_config()?);
    let recompute = advice::recomputation(&planner, &e)?;
    let knobs = if e.fits() { Vec::new() } else { advice::knobs(&planner)? };
    let longest = request.max_seq.then(|| advice::longest_sequence(&planner)).transpose()?;
    let recipe = request.resolved.recipe.map(|r| r.name);
    let recorded = RECORDED_PEAKS.iter().find(|r| Some(r.recipe) == recipe);
    let (t, m) = (planner.target, &request.resolved.config);
    let s = &e.statics;
    let a = &e.activations;
    let notes = notes(request, t.name, planner.exact());
    let charged_step = e.charged * e.tokens / e.ranks.world as f64;
    let serial = e.compute_seconds + e.communication_seconds();
    let overlapped = e.compute_seconds.max(e.communication_seconds());

    if request.json {
        let knob = |k: &Knob| json!({"setting": k.setting, "saves_bytes": k.saves, "costs_seconds": k.costs_seconds, "fits": k.fits});
        let ops: Vec<_> = if request.ops {
            let live = e.program.live_bytes();
            let all = e.program.nodes.iter().enumerate();
            all.map(|(i, n)| {
                let traffic = n.op.traffic();
                json!({"index": i, "op": n.op.name(), "region": e.program.region_of(i), "live_bytes": live[i],
                       "flops": n.op.flops(), "read_bytes": traffic.read, "written_bytes": traffic.written})
            })
            .collect()
        } else {
            Vec::new()
        };
        let mut all = json!({
            "recipe": recipe,
            "parameters": layout.element_count(),
            "tensors": layout.tensor_count(),
            "target": t.name,
            "exact": planner.exact(),
            "ranks": {"world": e.ranks.world, "tp": e.ranks.tp, "cp": e.ranks.cp, "ep": e.ranks.ep,
                      "etp": e.ranks.etp, "dp": e.ranks.dp, "edp": e.ranks.edp},
            "micro_batch": {"rows": shape.rows, "seq_length": shape.row_len, "per_step": e.micro_batches},
            "static_bytes": {"weights": s.weights, "gradients": s.gradients, "masters": s.masters,
                             "moments": s.moments, "inputs_and_state": s.state},
            "saved_bytes": a.saved.iter().map(|(k, b)| ((*k).to_string(), json!(b))).collect::<serde_json::Map<_, _>>(),
            "logits_bytes": a.logits,
            "arena_bytes": e.arena,
            "scratch_bytes": e.scratch,
            "sampler_bytes": e.sampler,
            "snapshot_bytes": e.snapshot,
            "workspace_at_peak_bytes": a.workspace,
            "collective_bytes": e.collective,
            "host_bytes": e.host,
            "reserve_bytes": e.reserve,
            "total_bytes": e.total(),
            "limit_bytes": if e.limit.is_finite() { json!(e.limit) } else { json!(null) },
            "notes": notes,
            "limit_source": e.limit_source,
            "fits": e.fits(),
            "peak": {"region": a.peak_region, "op": a.peak_op, "live_bytes": a.peak,
                     "holders": a.holders.iter().map(|h| json!({"name": h.name, "bytes": h.bytes})).collect::<Vec<_>>()},
            "points": a.timeline.iter().map(|(region, bytes)| json!({"region": region, "bytes": bytes})).collect::<Vec<_>>(),
            "flops_per_token": {"charged": e.charged, "honest": e.honest},
            "rank_step": {"program_flops": e.program_flops, "recompute_flops": e.recompute_flops,
                          "moved_bytes": e.moved, "compute_seconds": e.compute_seconds,
                          "communication_seconds": e.communication_seconds()},
            "collectives": e.collectives.iter().map(|c| json!({"name": c.name, "ranks": c.ranks, "calls": c.calls,
                "bytes": c.bytes, "link": c.link, "seconds": c.seconds})).collect::<Vec<_>>(),
            "recompute": recompute.iter().map(knob).collect::<Vec<_>>(),
            "knobs": knobs.iter().map(knob).collect::<Vec<_>>(),
            "recorded_peak_of_the_public_stack": recorded.map(|r| json!({"allocated_gib": r.allocated_gib,
                "reserved_gib": r.reserved_gib, "source": r.source})),
        });
        if let Some(longest) = longest {
            all["max_seq_length"] = json!(longest);
        }
        if request.ops {
            all["ops"] = ops.into();
        }
        return Ok(format!("{all:#}\n"));
    }

    let (unit, divisor) = unit(&e);
    let size = |bytes: f64| bytes / divisor;
    let mut o = String::new();
    let mut line = |text: String| {
        o.push_str(&text);
        o.push('\n');
    };
    line(format!(
        "model       {} parameters in {} tensors",
        grouped(layout.element_count()),
        grouped(layout.tensor_count() as u64)
    ));
    let r = &e.ranks;
    line(format!(
        "layout      {} ranks on {}: TP{} CP{} EP{} ETP{} DP{} EDP{}",
        r.world, t.name, r.tp, r.cp, r.ep, r.etp, r.dp, r.edp
    ));
    line(format!(
        "micro-batch {} x {} tokens, {} per step; {}",
        shape.rows,
        shape.row_len,
        e.micro_batches,
        if planner.exact() { "exactly what the run allocates" } else { "a projection with experts at balanced load" }
    ));
    for note in notes {
        line(format!("note        {note}"));
    }
    line(String::new());
    memory(&e).into_iter().for_each(&mut line);
    if e.host > 0.0 {
        line(format!("  {:28} {:9.2}", "in host memory", size(e.host)));
    }
    if let Some(r) = recorded {
        line(format!(
            "  {:28} {:9.2}  allocated, {:.2} reserved: recorded with the public stack, not with this program ({})",
            "for comparison", r.allocated_gib, r.reserved_gib, r.source
        ));
    }
    line(format!("  {}", if e.fits() { "fits" } else { "does NOT fit" }));
    for k in &knobs {
        line(format!(
            "    {}: saves {:.2} {unit}, {:+.1} ms per step{}",
            k.setting,
            size(k.saves),
            1e3 * k.costs_seconds,
            if k.fits { ", fits" } else { "" }
        ));
    }
    line(String::new());
    line(format!("peak        {} in {}, {:.2} {unit} alive; largest:", a.peak_op, a.peak_region, size(a.peak as f64)));
    for h in &a.holders {
        line(format!("  {:40} {:9.1} MiB", h.name, h.bytes as f64 / MIB));
    }
    line("fullest point of every part of the step (activations and workspace)".to_string());
    for (part, region, bytes) in parts(&a.timeline) {
        line(format!("  {part:40} {:9.1} MiB  in {region}", bytes as f64 / MIB));
    }
    if !recompute.is_empty() {
        line("recomputed, each beside the others".to_string());
        for k in &recompute {
            line(format!(
                "  {:10} saves {:7.2} {unit}, costs {:9.1} ms per step",
                k.setting,
                size(k.saves),
                1e3 * k.costs_seconds
            ));
        }
    }
    line(String::new());
    line(format!(
        "work        {} FLOP per token charged (public formula), {} honest (3 x forward of the true shapes)",
        grouped(e.charged as u64),
        grouped(e.honest as u64)
    ));
    line(format!(
        "            per rank and step: {:.1} TFLOP, of them {:.1} recomputed; {:.1} GB through memory",
        e.program_flops / 1e12,
        e.recompute_flops / 1e12,
        e.moved / 1e9
    ));
    for c in &e.collectives {
        line(format!(
            "  {:34} {:3} ranks {:8.0} calls {:10.2} GB over {:7} {:9.1} ms",
            c.name,
            c.ranks,
            c.calls,
            c.bytes / 1e9,
            c.link,
            1e3 * c.seconds
        ));
    }
    line(format!(
        "time        {:.1} ms at the roofs ({:.1} recomputed) + {:.1} ms communication: {:.1} ms hidden, {:.1} ms in turn",
        1e3 * e.compute_seconds,
        1e3 * e.recompute_seconds,
        1e3 * e.communication_seconds(),
        1e3 * overlapped,
        1e3 * serial
    ));
    line(format!(
        "            {:.0} tokens/s and {:.1} TFLOP/s charged per rank at best; rates: {}{}",
        e.tokens / overlapped / e.ranks.world as f64,
        charged_step / overlapped / 1e12,
        t.source,
        planner.measured.as_ref().map_or(String::new(), |table| format!(
            "; measured on {} where the table has the operation",
            table.machine
        ))
    ));
    if let Some(longest) = longest {
        match longest {
            Some(n) => line(format!("max-seq     {n} tokens fit with micro-batches of {}", m.train.micro_batch_size)),
            None => line("max-seq     no sequence fits: the static memory alone is too large".to_string()),
        }
    }
    if request.ops {
        line(String::new());
        line(format!("{:>6}  {:>10}  {:>10}  {:>10}  {:24} region", "op", "live MiB", "GFLOP", "moved MB", "name"));
        let live = e.program.live_bytes();
        for (i, n) in e.program.nodes.iter().enumerate() {
            let mut text = String::new();
            let _ = write!(
                text,
                "{i:6}  {:10.1}  {:10.3}  {:10.2}  {:24} {}",
                live[i] as f64 / MIB,
                n.op.flops() as f64 / 1e9,
                n.op.traffic().total() as f64 / 1e6,
                n.op.name(),
                e.program.region_of(i)
            );
            line(text);
        }
    }
    Ok(o)
}
