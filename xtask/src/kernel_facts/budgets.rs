//! `csrc/budgets.toml`: the most that a kernel may use, and the opcodes that it must or must not contain.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Facts;
use crate::failure::{Failure, Result};

/// Limits of one kernel. What is not given is not limited, except through the defaults of all kernels.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Budget {
    registers: Option<u64>,
    stack: Option<u64>,
    spill_bytes: Option<u64>,
    static_shared: Option<u64>,
    instructions: Option<u64>,
    /// Opcodes that must occur, with or without further modifiers.
    #[serde(default)]
    require: Vec<String>,
    /// Opcodes that must not occur, with or without further modifiers.
    #[serde(default)]
    forbid: Vec<String>,
}

/// The budgets of all kernels: a default, then one table per architecture and kernel.
#[derive(Debug, Deserialize)]
pub struct Budgets {
    default: Budget,
    #[serde(flatten)]
    archs: BTreeMap<String, BTreeMap<String, Budget>>,
}

impl Budgets {
    /// Reads the text of `budgets.toml`.
    pub fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).map_err(|e| Failure::new(format!("csrc/budgets.toml: {e}")))
    }

    /// One line for each fact over its budget, for each kernel without a budget and for each budget without a kernel.
    pub fn problems(&self, facts: &[Facts]) -> Vec<String> {
        let mut problems = Vec::new();
        for f in facts {
            let Some(budget) = self.archs.get(&f.arch).and_then(|kernels| kernels.get(&f.kernel)) else {
                problems.push(format!(
                    "kernel {} for {} has no budget: add [{1}.{0}] to csrc/budgets.toml (it uses {2} registers)",
                    f.kernel, f.arch, f.registers
                ));
                continue;
            };
            let limits = [
                ("registers", f.registers, budget.registers.or(self.default.registers)),
                ("stack", f.stack, budget.stack.or(self.default.stack)),
                ("spill_bytes", f.spill_bytes, budget.spill_bytes.or(self.default.spill_bytes)),
                ("static_shared", f.static_shared, budget.static_shared.or(self.default.static_shared)),
                ("instructions", f.instructions, budget.instructions.or(self.default.instructions)),
            ];
            for (fact, value, limit) in limits {
                if let Some(limit) = limit.filter(|limit| value > *limit) {
                    problems.push(format!("kernel {} for {}: {fact} is {value}, the budget {limit}", f.kernel, f.arch));
                }
            }
            for opcode in budget.require.iter().chain(&self.default.require) {
                if count(f, opcode) == 0 {
                    problems.push(format!("kernel {} for {}: {opcode} must occur and does not", f.kernel, f.arch));
                }
            }
            for opcode in budget.forbid.iter().chain(&self.default.forbid) {
                let times = count(f, opcode);
                if times > 0 {
                    problems.push(format!(
                        "kernel {} for {}: {opcode} occurs {times} times, the budget is 0",
                        f.kernel, f.arch
                    ));
                }
            }
        }
        for (arch, kernels) in &self.archs {
            // Budgets of an architecture that was not built stay unchecked.
            if facts.iter().any(|f| f.arch == *arch) {
                for kernel in kernels.keys() {
                    if !facts.iter().any(|f| f.arch == *arch && f.kernel == *kernel) {
                        problems.push(format!("csrc/budgets.toml has [{arch}.{kernel}], but there is no such kernel"));
                    }
                }
            }
        }
        problems
    }
}

/// How often an opcode occurs, with or without further modifiers.
fn count(facts: &Facts, opcode: &str) -> u64 {
    facts
        .opcodes
        .iter()
        .filter(|(name, _)| name.strip_prefix(opcode).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
        .map(|(_, times)| times)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            kernel: "k".into(),
            arch: "sm_90a".into(),
            module: "norm/k".into(),
            registers: 40,
            stack: 0,
            spill_bytes: 8,
            static_shared: 96,
            instructions: 3,
            opcodes: BTreeMap::from([("LDG.E.128".into(), 2), ("LDL".into(), 1)]),
        }
    }

    #[test]
    fn an_exceeded_budget_names_kernel_fact_value_and_budget() {
        let text = "[default]\nspill_bytes = 0\nforbid = [\"LDL\"]\n\
                    [sm_90a.k]\nregisters = 39\nrequire = [\"LDG.E\", \"HGMMA\"]\n";
        let problems = Budgets::parse(text).unwrap().problems(&[facts()]);
        assert_eq!(
            problems,
            [
                "kernel k for sm_90a: registers is 40, the budget 39",
                "kernel k for sm_90a: spill_bytes is 8, the budget 0",
                "kernel k for sm_90a: HGMMA must occur and does not",
                "kernel k for sm_90a: LDL occurs 1 times, the budget is 0",
            ]
        );
    }

    #[test]
    fn a_prefix_of_a_name_is_no_match() {
        assert_eq!(count(&facts(), "LD"), 0);
        assert_eq!(count(&facts(), "LDG"), 2);
        assert_eq!(count(&facts(), "LDG.E.128"), 2);
    }

    #[test]
    fn every_kernel_has_a_budget_and_every_budget_a_kernel() {
        let budgets = Budgets::parse("[default]\n[sm_90a.gone]\nregisters = 1\n[sm_100a.k]\n").unwrap();
        let problems = budgets.problems(&[facts()]);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("k for sm_90a has no budget"));
        assert!(problems[1].contains("[sm_90a.gone]"));
        assert!(Budgets::parse("[default]\nregister = 1\n").is_err());
    }
}
