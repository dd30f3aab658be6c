//! Names of special registers that are fixed for a thread.

use crate::ptx::program::{MaskKind, Special};

/// The special register of a name.
pub(super) fn special(name: &str) -> Option<Special> {
    let axis = |rest: &str| match rest {
        ".x" => Some(0u8),
        ".y" => Some(1),
        ".z" => Some(2),
        _ => None,
    };
    for (prefix, make) in [
        ("%tid", Special::Tid as fn(u8) -> Special),
        ("%ntid", Special::Ntid),
        ("%ctaid", Special::Ctaid),
        ("%nctaid", Special::Nctaid),
        ("%clusterid", Special::ClusterId),
        ("%nclusterid", Special::NclusterId),
        ("%cluster_ctaid", Special::ClusterCtaid),
        ("%cluster_nctaid", Special::ClusterNctaid),
    ] {
        if let Some(a) = name.strip_prefix(prefix).and_then(axis) {
            return Some(make(a));
        }
    }
    Some(match name {
        "%cluster_ctarank" => Special::ClusterCtarank,
        "%cluster_nctarank" => Special::ClusterNctarank,
        "%is_explicit_cluster" => Special::ExplicitCluster,
        "%laneid" => Special::LaneId,
        "%warpid" => Special::WarpId,
        "%nwarpid" => Special::NwarpId,
        "%smid" => Special::SmId,
        "%nsmid" => Special::NsmId,
        "%gridid" => Special::GridId,
        "%lanemask_eq" => Special::LaneMask(MaskKind::Eq),
        "%lanemask_le" => Special::LaneMask(MaskKind::Le),
        "%lanemask_lt" => Special::LaneMask(MaskKind::Lt),
        "%lanemask_ge" => Special::LaneMask(MaskKind::Ge),
        "%lanemask_gt" => Special::LaneMask(MaskKind::Gt),
        "%dynamic_smem_size" => Special::DynamicShared,
        "%total_smem_size" | "%aggr_smem_size" => Special::TotalShared,
        _ => return None,
    })
}
