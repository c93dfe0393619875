//! A resolver whose names resolve to configured addresses.

use std::{collections::HashMap, io, net::IpAddr, sync::Arc};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use crate::Resolver;

/// Names and the results of their lookups. Each lookup returns the next result, and the last one
/// repeats.
#[derive(Default)]
pub(crate) struct Names {
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    asked: Mutex<Vec<String>>,
}

impl Names {
    pub(crate) fn new(names: &[(&str, &[&[&str]])]) -> Arc<Self> {
        let answers = names.iter().map(|(name, answers)| {
            let answers = answers.iter().rev().map(|addresses| {
                addresses.iter().map(|address| address.parse().unwrap()).collect()
            });
            ((*name).to_owned(), answers.collect())
        });
        Arc::new(Self { answers: Mutex::new(answers.collect()), asked: Mutex::default() })
    }

    /// Returns every name that was looked up, in order.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

impl Resolver for Names {
    fn resolve(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        self.asked.lock().push(name.to_owned());
        let mut names = self.answers.lock();
        let answer = names
            .get_mut(name)
            .map(|answers| if answers.len() > 1 { answers.pop() } else { answers.last().cloned() });
        Box::pin(async move { answer.flatten().ok_or_else(|| io::Error::other("no such name")) })
    }
}
