//! The addresses at which the commands of a machine reach its gateway. They need no value of the environment, so a
//! command without the variables of the gateway can read them.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use super::{
    load::{read_file, whole},
    place::Place,
    resolve,
};
use airlock_config_file::{
    error::{ConfigError, Problem},
    file::File,
    read::{self, Reading},
};

/// Addresses of the gateway of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayAddress {
    /// `management.socket`: path of the Unix socket; `None` if there is none, or no management API.
    pub socket: Option<PathBuf>,
    /// `server.listen`.
    pub listen: SocketAddr,
    /// `server.tls.certificate`: file of the certificate; `None` for plain HTTP.
    pub certificate: Option<PathBuf>,
}

impl GatewayAddress {
    /// Reads a configuration file, and resolves these keys alone: variables and vaults to which others refer need not
    /// exist. Fails if the file cannot be read, has a key that is unknown or a value of a wrong type, or if one of
    /// these keys is not valid.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let json = read_file(path)?;
        let Reading { value, mut problems, .. } = read::read::<File>(&json);
        let address = value.filter(|_| problems.is_empty()).map(|file| {
            let (address, refused) = resolve::address(&file, Place::of_file(path));
            problems.extend(refused.into_iter().map(Problem::from));
            address
        });
        whole((address, problems), path.display().to_string())
    }
}
