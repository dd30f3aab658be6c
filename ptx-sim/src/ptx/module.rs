//! A loaded module: kernels with their layout, variables, source lines.

use super::decode;
use super::lexer::tokenize;
use super::program::Program;
use super::syntax::{Decl, Function, InitItem, Parser, Text};
use super::types::Ty;
use std::collections::HashMap;
use std::fmt;

/// State space of a module variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableSpace {
    /// `.global`
    Global,
    /// `.const`
    Const,
}

/// A `.global` or `.const` variable of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Name in the PTX text.
    pub name: String,
    /// State space.
    pub space: VariableSpace,
    /// Size in bytes.
    pub bytes: usize,
    /// Alignment in bytes.
    pub align: usize,
    /// Initial contents, `bytes` long.
    pub initial: Vec<u8>,
    /// Places that hold the address of another variable: offset, index of the variable, offset within it.
    pub relocations: Vec<(usize, usize, u64)>,
}

/// One kernel parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name in the PTX text.
    pub name: String,
    /// Offset in the parameter block.
    pub offset: usize,
    /// Size in bytes.
    pub bytes: usize,
    /// Alignment in bytes.
    pub align: usize,
}

/// A decoded kernel.
pub struct Kernel {
    /// Name (`.entry`).
    pub name: String,
    /// Parameters in order.
    pub params: Vec<Parameter>,
    /// Size of the parameter block in bytes.
    pub param_bytes: usize,
    /// Statically declared shared memory in bytes.
    pub static_shared: usize,
    /// Local memory of a thread in bytes.
    pub local_bytes: usize,
    /// `.maxntid`, when given.
    pub max_threads: Option<[u32; 3]>,
    /// `.reqntid`, when given.
    pub required_threads: Option<[u32; 3]>,
    /// `.minnctapersm`, when given.
    pub min_blocks: Option<u32>,
    /// `.maxnreg`, when given.
    pub max_registers: Option<u32>,
    /// `.reqnctapercluster`, when given.
    pub required_cluster: Option<[u32; 3]>,
    /// `.explicitcluster`: the launch must name a cluster size.
    pub explicit_cluster: bool,
    /// `.maxclusterrank`, when given.
    pub max_cluster: Option<u32>,
    pub(crate) program: Program,
}

/// A decoded module. Loading checks everything that can be checked without a launch.
pub struct Module {
    /// The kernels.
    pub kernels: Vec<Kernel>,
    /// `.global` and `.const` variables.
    pub variables: Vec<Variable>,
    /// `.target` of the text, for example `sm_90a`.
    pub target: String,
    /// `.version` of the text: major and minor.
    pub version: (u32, u32),
    /// Source files of `.loc`, by their numbers.
    pub files: HashMap<u32, String>,
    pub(crate) text: String,
}

/// Why PTX text cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// Line of the PTX text, from 1.
    pub line: u32,
    /// What is wrong, and what to try.
    pub message: String,
    /// Whether the text is well formed but uses something that the virtual device does not have.
    pub unsupported: bool,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PTX line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for LoadError {}

impl Module {
    /// Decodes PTX text.
    ///
    /// # Errors
    /// A [`LoadError`] that names the line: malformed text, an instruction or modifier that is not supported, an ISA
    /// version newer than 9.0, an unknown target.
    pub fn load(ptx: &str) -> Result<Module, LoadError> {
        let text = Parser::new(tokenize(ptx)?).text()?;
        check_header(&text)?;
        let mut functions: HashMap<&str, &Function<'_>> = HashMap::new();
        for f in &text.functions {
            // A definition wins over declarations of the same name.
            let known = functions.get(f.name).is_some_and(|g| g.body.is_some());
            if known && f.body.is_some() {
                return Err(LoadError {
                    line: f.line,
                    message: format!("`{}` is defined twice", f.name),
                    unsupported: false,
                });
            }
            if !known {
                functions.insert(f.name, f);
            }
        }
        for (alias, target) in &text.aliases {
            if let Some(f) = functions.get(target).copied() {
                functions.insert(alias, f);
            }
        }
        let shared: Vec<Decl<'_>> = text.variables.iter().filter(|d| d.space == ".shared").cloned().collect();
        let placed: Vec<&Decl<'_>> = text.variables.iter().filter(|d| d.space != ".shared").collect();
        let mut index: HashMap<&str, usize> = HashMap::new();
        for (i, d) in placed.iter().enumerate() {
            index.insert(d.name, i);
        }
        let variables = placed.iter().map(|d| variable(d, &index)).collect::<Result<Vec<_>, _>>()?;
        let mut kernels = Vec::new();
        for f in text.functions.iter().filter(|f| f.entry && f.body.is_some()) {
            kernels.push(kernel(f, &functions, &index, &shared)?);
        }
        Ok(Module {
            kernels,
            variables,
            target: text.target.to_string(),
            version: text.version,
            files: text.files.iter().map(|(n, s)| (*n, s.to_string())).collect(),
            text: ptx.to_string(),
        })
    }

    /// The kernel of a name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|k| k.name == name)
    }

    /// The text of a line of the PTX, trimmed.
    pub(crate) fn line(&self, line: u32) -> &str {
        self.text.lines().nth((line as usize).saturating_sub(1)).unwrap_or("").trim()
    }
}

fn check_header(text: &Text<'_>) -> Result<(), LoadError> {
    let fail = |message: String, unsupported| Err(LoadError { line: 1, message, unsupported });
    if text.version == (0, 0) {
        return fail("no .version directive; this is not PTX".to_string(), false);
    }
    if text.version > (9, 0) {
        let (a, b) = text.version;
        return fail(format!("PTX ISA {a}.{b} is newer than 9.0; compile with CUDA 13.0"), true);
    }
    let sm =
        text.target.strip_prefix("sm_").map(|t| t.trim_end_matches(['a', 'f'])).and_then(|t| t.parse::<u32>().ok());
    match sm {
        None => fail(format!("target `{}` is not known; sm_90a is expected", text.target), true),
        Some(n) if n > 90 => fail(
            format!("target `{}` is newer than the virtual device (sm_90a); compile for sm_90a", text.target),
            true,
        ),
        Some(n) if n < 90 && text.target.ends_with('a') => {
            fail(format!("target `{}` is not the device's", text.target), true)
        }
        Some(_) => Ok(()),
    }
}

fn variable(d: &Decl<'_>, index: &HashMap<&str, usize>) -> Result<Variable, LoadError> {
    let fail = |message: String| Err(LoadError { line: d.line, message, unsupported: false });
    let space = match d.space {
        ".const" => VariableSpace::Const,
        ".global" => VariableSpace::Global,
        s => return fail(format!("a module variable cannot be in `{s}`")),
    };
    let elements = match d.elements {
        Some(0) => d.init.len(),
        Some(n) => n,
        None => 1,
    };
    let size = d.ty.size();
    let bytes = elements * size;
    if bytes > 1 << 31 {
        return fail(format!("`{}` has {bytes} bytes, more than 2 GiB", d.name));
    }
    let mut initial = vec![0u8; bytes];
    let mut relocations = Vec::new();
    for (i, item) in d.init.iter().enumerate() {
        let at = i * size;
        if at + size > bytes {
            return fail(format!("`{}` has more initial values than elements", d.name));
        }
        let bits = match item {
            InitItem::Bits(v) => *v,
            InitItem::F64(v) if d.ty == Ty::F32 => (f64::from_bits(*v) as f32).to_bits() as u64,
            InitItem::F64(v) => *v,
            InitItem::Symbol { name, offset } => {
                let Some(target) = index.get(name) else {
                    return fail(format!("`{name}` in the initial value of `{}` is not a variable", d.name));
                };
                if size != 8 {
                    return fail(format!("the address of `{name}` needs eight bytes"));
                }
                relocations.push((at, *target, *offset as u64));
                0
            }
        };
        initial[at..at + size].copy_from_slice(&bits.to_le_bytes()[..size]);
    }
    Ok(Variable { name: d.name.to_string(), space, bytes, align: d.align, initial, relocations })
}

fn kernel<'a>(
    f: &'a Function<'a>,
    functions: &'a HashMap<&'a str, &'a Function<'a>>,
    variables: &'a HashMap<&'a str, usize>,
    shared: &'a [Decl<'a>],
) -> Result<Kernel, LoadError> {
    let mut params = Vec::new();
    let mut names = Vec::new();
    let mut at = 0usize;
    for p in &f.params {
        let bytes = p.ty.size() * p.elements.unwrap_or(1);
        at = at.div_ceil(p.align) * p.align;
        params.push(Parameter { name: p.name.to_string(), offset: at, bytes, align: p.align });
        names.push((p.name, at));
        at += bytes;
        if at > 32_764 {
            return Err(LoadError {
                line: p.line,
                message: format!("parameters of `{}` exceed 32764 bytes", f.name),
                unsupported: false,
            });
        }
    }
    let decoded = decode::kernel(f, &names, functions, variables, shared)?;
    let mut k = Kernel {
        name: f.name.to_string(),
        params,
        param_bytes: at,
        static_shared: decoded.static_shared,
        local_bytes: decoded.local_bytes,
        max_threads: None,
        required_threads: None,
        min_blocks: None,
        max_registers: None,
        required_cluster: None,
        explicit_cluster: false,
        max_cluster: None,
        program: decoded.program,
    };
    for (name, v) in &f.attributes {
        let dim = |i: usize| v.get(i).map_or(1, |x| *x as u32);
        let three = Some([dim(0), dim(1), dim(2)]);
        match *name {
            ".maxntid" => k.max_threads = three,
            ".reqntid" => k.required_threads = three,
            ".minnctapersm" => k.min_blocks = Some(dim(0)),
            ".maxnctapersm" => {}
            ".maxnreg" => k.max_registers = Some(dim(0)),
            ".reqnctapercluster" => k.required_cluster = three,
            ".explicitcluster" => k.explicit_cluster = true,
            ".maxclusterrank" => k.max_cluster = Some(dim(0)),
            ".noreturn" => {}
            other => {
                return Err(LoadError {
                    line: f.line,
                    message: format!("kernel attribute `{other}` is not supported by the virtual device"),
                    unsupported: true,
                });
            }
        }
    }
    Ok(k)
}
