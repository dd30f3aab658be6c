//! `verify same`: two checkpoints of either kind, tensor by tensor.

use crate::cli::argv::{Flag, Takes};
use crate::cli::{Exit, Failure};
use crate::convert::weights::Listed;
use crate::convert::{ConvertError, Weights, cast, stream::CHUNK, stream::Source};
use argh::FromArgs;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Compare two checkpoints of either kind: names, shapes, types and values, bit by bit.
///
/// Two checkpoints of ours are compared with their optimizers, any others by their weights. Exit code 7 when anything
/// differs.
#[derive(FromArgs, Debug, Clone)]
#[argh(help_triggers("--help"))]
pub struct VerifySameArgs {
    /// a checkpoint: `verify same A B`, or --a
    #[argh(option, arg_name = "dir")]
    pub a: String,
    /// the other: `verify same A B`, or --b
    #[argh(option, arg_name = "dir")]
    pub b: String,
    /// print machine-readable results
    #[argh(switch)]
    pub json: bool,
}

/// Flags of [`VerifySameArgs`].
pub const VERIFY_SAME_FLAGS: &[Flag] =
    &[Flag::new("a", Takes::Value), Flag::new("b", Takes::Value), Flag::new("json", Takes::Switch)];

/// A tensor whose bytes differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Its name.
    pub name: String,
    /// Elements that differ in their bits.
    pub elements: u64,
    /// Largest absolute difference of values; infinite when one of the two is not finite.
    pub largest: f64,
}

/// What a comparison found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Comparison {
    /// Tensors that both have.
    pub tensors: usize,
    /// Their elements.
    pub parameters: u64,
    /// Tensors that only one has, and other types or shapes; one line each.
    pub structure: Vec<String>,
    /// Tensors with other values.
    pub values: Vec<Difference>,
}

impl Comparison {
    /// Whether nothing differs.
    pub fn is_same(&self) -> bool {
        self.structure.is_empty() && self.values.is_empty()
    }

    /// Largest absolute difference of values.
    pub fn largest(&self) -> f64 {
        self.values.iter().map(|d| d.largest).fold(0.0, f64::max)
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for line in self.structure.iter().take(20) {
            writeln!(text, "{line}").expect("text grows");
        }
        for d in self.values.iter().take(20) {
            writeln!(text, "{}: {} elements differ, by at most {:e}", d.name, d.elements, d.largest)
                .expect("text grows");
        }
        let verdict = if self.is_same() {
            "identical".to_string()
        } else {
            format!(
                "{} differences in structure, {} tensors with other values",
                self.structure.len(),
                self.values.len()
            )
        };
        writeln!(
            text,
            "{verdict}: {} tensors, {} elements compared, maximum difference {:e}",
            self.tensors,
            self.parameters,
            self.largest()
        )
        .expect("text grows");
        text
    }

    /// For machines.
    pub fn to_json(&self) -> Value {
        let values: Vec<Value> = self
            .values
            .iter()
            .map(|d| json!({ "name": d.name, "elements": d.elements, "largest": d.largest }))
            .collect();
        json!({
            "same": self.is_same(), "tensors": self.tensors, "parameters": self.parameters,
            "max_difference": self.largest(), "structure": self.structure, "values": values,
        })
    }
}

/// The verb `verify same`.
///
/// # Errors
/// Checkpoints that cannot be read; `Verification` when they differ.
pub fn same(args: VerifySameArgs) -> Result<(), Failure> {
    let result = compare(&Weights::open(Path::new(&args.a))?, &Weights::open(Path::new(&args.b))?)?;
    if args.json {
        println!("{}", result.to_json());
    } else {
        print!("{}", result.text());
    }
    if result.is_same() {
        return Ok(());
    }
    Err(Failure::new(Exit::Verification, format!("{} and {} differ", args.a, args.b)))
}

/// Compares two checkpoints.
///
/// # Errors
/// Files that cannot be read, or a wrong checksum.
pub fn compare(a: &Weights, b: &Weights) -> Result<Comparison, ConvertError> {
    let all = matches!((a, b), (Weights::Ours { .. }, Weights::Ours { .. }));
    let by_name =
        |w: &Weights| -> BTreeMap<String, Listed> { w.list(all).into_iter().map(|t| (t.name.clone(), t)).collect() };
    let (in_a, in_b) = (by_name(a), by_name(b));
    let mut result = Comparison::default();
    let only = |one: &BTreeMap<String, Listed>, other: &BTreeMap<String, Listed>, path: &Path| {
        let names = one.keys().filter(|n| !other.contains_key(*n));
        names.map(|n| format!("{n} is only in {}", path.display())).collect::<Vec<_>>()
    };
    result.structure.extend(only(&in_a, &in_b, a.path()));
    result.structure.extend(only(&in_b, &in_a, b.path()));
    for (name, x) in &in_a {
        let Some(y) = in_b.get(name) else { continue };
        if x.shape != y.shape {
            result.structure.push(format!("{name} has shapes {:?} and {:?}", x.shape, y.shape));
            continue;
        }
        if x.dtype != y.dtype {
            result.structure.push(format!("{name} has types {} and {}", x.dtype, y.dtype));
        }
        result.tensors += 1;
        result.parameters += x.shape.iter().map(|d| *d as u64).product::<u64>();
        let difference = compare_values(a, x, b, y)?;
        if difference.elements > 0 {
            result.values.push(difference);
        }
    }
    Ok(result)
}

fn compare_values(a: &Weights, x: &Listed, b: &Weights, y: &Listed) -> Result<Difference, ConvertError> {
    let total: usize = x.shape.iter().product();
    let sizes = [x.dtype.bitsize() / 8, y.dtype.bitsize() / 8];
    let (mut from_a, mut from_b) = (a.stream(&x.name), b.stream(&y.name));
    let (mut bytes_a, mut bytes_b, mut floats_a, mut floats_b) = (vec![], vec![], vec![], vec![]);
    let mut difference = Difference { name: x.name.clone(), elements: 0, largest: 0.0 };
    let mut at = 0;
    while at < total {
        let n = (CHUNK / 8).min(total - at);
        at += n;
        bytes_a.resize(n * sizes[0], 0);
        bytes_b.resize(n * sizes[1], 0);
        from_a.read(&mut bytes_a)?;
        from_b.read(&mut bytes_b)?;
        if x.dtype == y.dtype && bytes_a == bytes_b {
            continue;
        }
        let floats = cast::to_f32(x.dtype, &bytes_a, &mut floats_a)
            .and_then(|()| cast::to_f32(y.dtype, &bytes_b, &mut floats_b));
        if floats.is_none() {
            let pairs = bytes_a.chunks(sizes[0]).zip(bytes_b.chunks(sizes[1]));
            difference.elements += pairs.filter(|(p, q)| p != q).count() as u64;
            continue;
        }
        for (i, (p, q)) in floats_a.iter().zip(&floats_b).enumerate() {
            let equal = if x.dtype == y.dtype {
                let at = i * sizes[0];
                bytes_a[at..at + sizes[0]] == bytes_b[at..at + sizes[0]]
            } else {
                p == q || (p.is_nan() && q.is_nan())
            };
            if !equal {
                difference.elements += 1;
                let distance = (f64::from(*p) - f64::from(*q)).abs();
                difference.largest =
                    difference.largest.max(if distance.is_finite() { distance } else { f64::INFINITY });
            }
        }
    }
    Ok(difference)
}
