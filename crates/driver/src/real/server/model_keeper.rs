//! Writes a server's shard of the model into its data center.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::real::connections::message::KeptModel;
use crate::real::error::RealError;
use crate::trained::{Figures, data_digest, shard_file};
use gaia_config::{KeepModel, Plan};
use gaia_core::application::{Application, Attachment};
use gaia_core::types::ShardLayout;

/// The shards of a data center's model that servers of this process write.
#[derive(Clone)]
pub(in crate::real) struct ModelKeeper {
    folder: PathBuf,
    plan: Arc<Plan>,
    attachments: BTreeMap<String, Attachment>,
    metric: Cow<'static, str>,
    data_digest: Option<String>,
}

impl ModelKeeper {
    /// `None` if data centers do not keep the model.
    ///
    /// # Errors
    /// [`RealError::NoModelFolder`] if they do, and there is no folder for it.
    pub(in crate::real) fn of(
        plan: &Arc<Plan>,
        application: &dyn Application,
        folder: Option<&Path>,
    ) -> Result<Option<Self>, RealError> {
        if plan.model.keep == KeepModel::Coordinator {
            return Ok(None);
        }
        let folder = folder.ok_or(RealError::NoModelFolder)?.to_owned();
        let (attachments, metric) = (application.attachments(), application.metric().name);
        let data_digest = data_digest(application);
        Ok(Some(Self { folder, plan: plan.clone(), attachments, metric, data_digest }))
    }

    /// Writes a shard, whole or not at all.
    ///
    /// # Errors
    /// [`RealError::Model`] if it cannot be written.
    pub(in crate::real) fn write(
        &self,
        layout: &ShardLayout,
        values: &[f32],
        kept: KeptModel,
    ) -> Result<(), RealError> {
        let KeptModel { clock, objective, metric, is_best } = kept;
        let data_digest = self.data_digest.as_deref();
        let figures = Figures { clock, objective, metric: (&self.metric, metric), data_digest };
        let file = shard_file(&self.plan, layout, values, &self.attachments, &figures, is_best);
        Ok(file.write_in(&self.folder)?)
    }
}
