//! Who takes part, with all their policies, before the first run.

use quadrille_topology::discover;

use super::Error;
use crate::spec::{Contender, Contenders, Policy, Spec};

/// Those of every flag, in order.
pub(super) fn contenders(flags: &[Contenders]) -> Vec<Contender> {
    flags.iter().flat_map(|Contenders(some)| some).cloned().collect()
}

/// Makes every policy part of its run's description: `QUADRILLE_POLICY` for runs of quadrille that name none. So a run
/// is what its report says, and whatever is wrong with a policy is said before the first one.
///
/// # Errors
/// [`Error::Usage`] if the variable is needed and cannot be read, or if a policy does not fit this machine.
pub(super) fn settle<'a>(specs: impl IntoIterator<Item = &'a mut Spec>) -> Result<(), Error> {
    let specs: Vec<&mut Spec> = specs.into_iter().collect();
    let policy = if specs.iter().any(|spec| spec.runtime.is_open()) {
        Policy::of_environment().map_err(Error::Usage)?
    } else {
        None
    };
    let machine = discover().topology;
    for spec in specs {
        spec.runtime = spec.runtime.clone().or_policy(policy.as_ref());
        spec.runtime.check(&machine, spec.workers).map_err(Error::Usage)?;
    }
    Ok(())
}
