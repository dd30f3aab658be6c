//! Plants faults in kernels and reports which of them the virtual GPU finds; `cargo xtask sim-mutants` runs this.
//!
//! ```text
//! sim_mutants --pipeline gemm_pipeline.ptx --seed 7 --count 200 [--family MODULE] [--only TEXT] [--at-least 95] [--json] [--list]
//! ```
//!
//! Mutants are drawn from all sites of the modules below and of the pipeline, from each in turn, or of one with
//! `--family`; with `--only`, all sites whose line in the list contains the text are run instead. Every mutant runs in a
//! process of its own, because one that waits for ever must be ended from outside; it is compared with the original by
//! a hash of everything that it leaves in memory, under two schedules.

#[path = "../../tests/virtual_gpu/mod.rs"]
mod virtual_gpu;

mod equivalent;
mod pipeline;
mod routing;
mod sites;
mod workloads;

use std::collections::BTreeMap;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use equivalent::EQUIVALENT;
use kernels_sys::Arch;
use sites::Site;
use virtual_gpu::Random;

/// A mutant that has computed for this long waits for something that does not come.
const LONGEST: Duration = Duration::from_secs(30);
/// The same by the clock, on a machine that is busy with other things.
const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// Seed of the inputs that every mutant gets.
const INPUTS_SEED: u64 = 20;

/// Modules of the product that faults are planted in; the pipeline comes after them.
const MODULES: &[&str] = &[
    "norm/rms_norm",
    "gemm/gemm",
    "gemm/gemm_plain",
    "moe/experts",
    "attention/attention_fwd",
    "attention/attention_bwd",
    "loss/linear_cross_entropy",
    "norm/gated_rms_norm",
    "conv/conv_silu",
    "mamba/softplus_dt",
    "mamba/ssd_states",
    "mamba/ssd_scan_fwd",
    "mamba/ssd_scan_bwd_x",
    "mamba/ssd_scan_bwd_bc",
    "reduce/fill",
    "reduce/sum_blocks",
    "sort/counting_sort",
    "embed/segments",
    "embed/embedding",
    "moe/relu2",
    "moe/combine",
    "moe/router",
    "moe/router_product",
    "moe/router_stats",
    "moe/router_bwd",
    "optim/step_control",
    "optim/adamw",
];
/// Name of the pipeline as a family.
const PIPELINE: &str = "pipeline";

/// What became of a mutant.
enum Outcome {
    /// A check reported it.
    Check(String),
    /// Its results differ.
    Value,
    /// It did not end.
    Endless,
    /// Nothing shows.
    Survived,
}

struct Arguments {
    pipeline: String,
    seed: u64,
    count: usize,
    /// Draw from this module alone.
    family: Option<String>,
    /// Take every site whose line in the list contains this, in place of a sample.
    only: Option<String>,
    /// Percent of the mutants that must be found for success.
    at_least: usize,
    json: bool,
    list: bool,
    /// Run this one mutant of `kernel` and print what is found.
    child: Option<(String, usize)>,
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)).and_then(run) {
        Ok(code) => code,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::from(2)
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut out = Arguments {
        pipeline: String::new(),
        seed: 1,
        count: 20,
        family: None,
        only: None,
        at_least: 0,
        json: false,
        list: false,
        child: None,
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("`{text}` is not a number"));
        match word.as_str() {
            "--pipeline" => out.pipeline = value()?,
            "--seed" => out.seed = number(value()?)?,
            "--count" => out.count = number(value()?)? as usize,
            "--family" => out.family = Some(value()?),
            "--only" => out.only = Some(value()?),
            "--at-least" => out.at_least = number(value()?)? as usize,
            "--json" => out.json = true,
            "--list" => out.list = true,
            "--child" => out.child = Some((value()?, number(value()?)? as usize)),
            _ => return Err(format!("unknown argument {word}")),
        }
    }
    if out.pipeline.is_empty() {
        return Err("--pipeline must name the PTX of xtask/mutants/gemm_pipeline.cu".into());
    }
    Ok(out)
}

/// PTX text of the modules and of the pipeline.
fn modules(pipeline: &str) -> Result<Vec<String>, String> {
    let embedded = |module: &&str| {
        let image = kernels_sys::image(module, Arch::Sm90a)
            .ok_or_else(|| kernels_sys::absent().unwrap_or("no image for sm_90a").to_string())?;
        Ok(image.ptx().to_string_lossy().into_owned())
    };
    let mut texts = MODULES.iter().map(embedded).collect::<Result<Vec<_>, String>>()?;
    texts.push(std::fs::read_to_string(pipeline).map_err(|e| format!("cannot read {pipeline}: {e}"))?);
    Ok(texts)
}

/// Which of the modules a kernel is in.
fn module_of(kernel: &str) -> Result<usize, String> {
    if kernel == pipeline::KERNEL {
        return Ok(MODULES.len());
    }
    let known = kernels_sys::kernel(kernel, Arch::Sm90a).ok_or_else(|| format!("no kernel {kernel}"))?;
    let named = MODULES.iter().position(|module| *module == known.module);
    named.ok_or_else(|| format!("{} of {kernel} is not among the modules", known.module))
}

fn run(arguments: Arguments) -> Result<ExitCode, String> {
    let modules = modules(&arguments.pipeline)?;
    let all: Vec<Vec<Site>> = modules.iter().map(|text| sites::sites(text)).collect();
    if let Some((kernel, index)) = &arguments.child {
        let module = module_of(kernel)?;
        let mutant = sites::mutated(&modules[module], &all[module][*index]);
        return Ok(child(kernel, &mutant));
    }
    if arguments.list {
        for site in all.iter().flatten() {
            println!("{}", shown(site));
        }
        return Ok(ExitCode::SUCCESS);
    }

    let proofs = all.iter().map(|sites| equivalent::proven(sites, EQUIVALENT)).collect::<Result<Vec<_>, String>>()?;
    let chosen = chosen(&arguments, &all)?;
    let mut originals = BTreeMap::new();
    for kernel in chosen.iter().map(|(module, index)| &all[*module][*index].kernel) {
        if !originals.contains_key(kernel) {
            let hash = workloads::run(kernel, &modules[module_of(kernel)?], INPUTS_SEED, 1, true)
                .map_err(|why| format!("the original {kernel} is not right: {why}"))?;
            originals.insert(kernel.clone(), hash);
        }
    }
    let mut tally: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    let (mut by_check, mut by_value, mut endless) = (0, 0, 0);
    let (mut survivors, mut equivalents) = (Vec::new(), Vec::new());
    for &(module, index) in &chosen {
        let site = &all[module][index];
        let outcome = mutant(&arguments.pipeline, site, index, originals[&site.kernel])?;
        let found = &mut tally.entry(format!("{:?}", site.kind)).or_default()[0];
        let said = match &outcome {
            Outcome::Check(what) => {
                by_check += 1;
                format!("check: {what}")
            }
            Outcome::Value => {
                by_value += 1;
                "value".to_string()
            }
            Outcome::Endless => {
                endless += 1;
                "endless".to_string()
            }
            Outcome::Survived => "SURVIVED".to_string(),
        };
        let line = shown(site);
        match (proofs[module][index], &outcome) {
            (Some(proof), Outcome::Survived) => {
                equivalents.push(format!("{line}\n    {}", proof.reason));
            }
            (Some(_), _) => {
                return Err(format!("{line}\nis listed as equivalent, but found ({said})"));
            }
            (None, Outcome::Survived) => survivors.push(line.clone()),
            (None, _) => *found += 1,
        }
        if proofs[module][index].is_none() {
            tally.entry(format!("{:?}", site.kind)).or_default()[1] += 1;
        }
        eprintln!("{line}\n    {said}");
    }
    report(&arguments, by_check, by_value + endless, (&survivors, &equivalents), &tally);
    let found = by_check + by_value + endless;
    Ok(ExitCode::from(u8::from(found * 100 < arguments.at_least * (found + survivors.len()))))
}

/// A site as the list shows it.
fn shown(site: &Site) -> String {
    format!("{}:{} {:?}: {} -> {}", site.kernel, site.line + 1, site.kind, site.before, site.after)
}

/// The sites to run, as module and index.
fn chosen(arguments: &Arguments, all: &[Vec<Site>]) -> Result<Vec<(usize, usize)>, String> {
    if let Some(text) = &arguments.only {
        let named = |of: usize| (0..all[of].len()).filter(move |i| shown(&all[of][*i]).contains(text));
        return Ok((0..all.len()).flat_map(|of| named(of).map(move |i| (of, i))).collect());
    }
    let names = || MODULES.iter().copied().chain([PIPELINE]);
    let families: Vec<usize> = match &arguments.family {
        None => (0..all.len()).collect(),
        Some(name) => match names().position(|known| known == name) {
            Some(family) => vec![family],
            None => return Err(format!("--family {name}: choose from {}", names().collect::<Vec<_>>().join(", "))),
        },
    };
    let mut random = Random::seeded(arguments.seed);
    let mut left: Vec<Vec<usize>> = vec![Vec::new(); all.len()];
    let draw = |n: usize| {
        // Each site at most once, as long as there are any.
        let family = families[n % families.len()];
        if left[family].is_empty() {
            left[family] = (0..all[family].len()).collect();
        }
        let at = (random.bits() % left[family].len() as u64) as usize;
        (family, left[family].swap_remove(at))
    };
    Ok((0..arguments.count).map(draw).collect())
}

/// Runs a mutant under two schedules; what it leaves is one line on standard output.
fn child(kernel: &str, mutant: &str) -> ExitCode {
    for schedule in [1, 2] {
        match workloads::run(kernel, mutant, INPUTS_SEED, schedule, false) {
            Ok(hash) => println!("hash {hash:016x}"),
            Err(why) => {
                println!("found {}", why.lines().next().unwrap_or_default());
                break;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Processor time that a process has taken so far; none where the system does not say.
fn computed(process: u32) -> Option<Duration> {
    let line = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before the last parenthesis may hold blanks; user and system time are the fields 14 and 15, in hundredths.
    let fields: Vec<&str> = line.rsplit(')').next()?.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Duration::from_millis(10 * (ticks(14)? + ticks(15)?)))
}

fn mutant(pipeline: &str, site: &Site, index: usize, original: u64) -> Result<Outcome, String> {
    let program = std::env::current_exe().map_err(|e| format!("cannot find this program's own file: {e}"))?;
    let mut process = Command::new(program)
        .args(["--pipeline", pipeline, "--child", &site.kernel, &index.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("cannot start a mutant: {e}"))?;
    let started = Instant::now();
    loop {
        let taken = computed(process.id()).unwrap_or_else(|| started.elapsed());
        match process.try_wait().map_err(|e| format!("cannot wait for a mutant: {e}"))? {
            Some(_) => break,
            None if taken > LONGEST || started.elapsed() > LONGEST_WAIT => {
                // It may end between the two calls: then there is nothing to kill.
                let _ = process.kill();
                let _ = process.wait();
                return Ok(Outcome::Endless);
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    let output = process.wait_with_output().map_err(|e| format!("cannot read from a mutant: {e}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    if let Some(what) = said.lines().find_map(|line| line.strip_prefix("found ")) {
        return Ok(Outcome::Check(what.to_string()));
    }
    if !output.status.success() {
        return Err(format!(
            "the virtual GPU itself failed on {} line {}: {}",
            site.kernel,
            site.line + 1,
            output.status
        ));
    }
    let same = said.lines().filter_map(|line| line.strip_prefix("hash ")).all(|h| h == format!("{original:016x}"));
    Ok(if same { Outcome::Survived } else { Outcome::Value })
}

fn report(
    arguments: &Arguments,
    by_check: usize,
    by_value: usize,
    (survivors, equivalents): (&[String], &[String]),
    tally: &BTreeMap<String, [usize; 2]>,
) {
    // Of the mutants that change anything.
    let found = by_check + by_value;
    let percent = 100.0 * found as f64 / (found + survivors.len()).max(1) as f64;
    if arguments.json {
        let quoted = |lines: &[String]| lines.iter().map(|s| format!("{s:?}")).collect::<Vec<_>>().join(",");
        println!(
            "{{\"seed\":{},\"count\":{},\"found_by_check\":{by_check},\"found_by_value\":{by_value},\"survived\":[{}],\"equivalent\":[{}]}}",
            arguments.seed,
            by_check + by_value + survivors.len() + equivalents.len(),
            quoted(survivors),
            quoted(equivalents)
        );
        return;
    }
    for (kind, [found, all]) in tally {
        println!("{kind:12} {found:4} of {all:4} found");
    }
    println!(
        "seed {}: {} mutants, {by_check} found by check, {by_value} by value, {} equivalent, {} survived ({percent:.1} % of the others found)",
        arguments.seed,
        found + survivors.len() + equivalents.len(),
        equivalents.len(),
        survivors.len()
    );
    for survivor in survivors {
        println!("survived: {survivor}");
    }
    for mutant in equivalents {
        println!("equivalent: {mutant}");
    }
}
