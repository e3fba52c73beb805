//! Cheapest scheme for the update of a matrix: section 3.3 of the Poseidon thesis, table 3.4 and
//! algorithm 2.
//!
//! A batch of `K` examples changes an `M × N` matrix of a fully connected layer by a sum of `K`
//! products `u vᵀ`. Workers can send the sum to parameter servers and fetch the new matrix, or send
//! the `K` pairs (*sufficient factors*) to all others and let each rebuild the sum. Costs are
//! numbers sent and received by one node. **Invariant:** comparisons are made in whole numbers;
//! nothing is rounded.

use serde::{Deserialize, Serialize};

/// Update of a matrix, and the number of participants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatrixUpdate {
    /// M, the number of rows.
    pub rows: u64,
    /// N, the number of columns.
    pub columns: u64,
    /// K, the number of products in the sum: examples in the batch of one worker. `None` if the
    /// update is not such a sum, as in a convolution.
    pub factors: Option<u64>,
    /// P₁, the number of workers.
    pub workers: u64,
    /// P₂, the number of parameter servers.
    pub servers: u64,
}

/// Communication scheme of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// Sums go to parameter servers, the new matrix comes back.
    ParameterServer,
    /// Sufficient factors go to all other workers.
    SufficientFactors,
}

/// Numbers that a node sends and receives, by its role.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeLoad {
    /// Node that is only a server.
    pub server: f64,
    /// Node that is only a worker.
    pub worker: f64,
    /// Node that is worker and server.
    pub both: f64,
}

/// Rows of table 3.4, one per scheme.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SchemeCosts {
    /// Cost through parameter servers.
    pub parameter_server: NodeLoad,
    /// Cost by sufficient factors, if there are any: every node is a worker and nothing else.
    pub sufficient_factors: Option<f64>,
    /// Factors to a server, whole matrices back (project Adam). For comparison only: it overloads
    /// the server that holds the matrix.
    pub adam: Option<NodeLoad>,
}

impl MatrixUpdate {
    /// Returns table 3.4 for this update.
    #[must_use]
    pub fn costs(&self) -> SchemeCosts {
        let [m, n, p1, p2] = [self.rows, self.columns, self.workers, self.servers].map(|number| number as f64);
        let whole = m * n;
        let parameter_server =
            NodeLoad { server: 2.0 * p1 * whole / p2, worker: 2.0 * whole, both: 2.0 * whole * (p1 + p2 - 2.0) / p2 };
        let factors = self.factors.map(|k| k as f64 * (m + n));
        let adam = |pairs: f64| NodeLoad {
            server: p1 * whole + p1 * pairs,
            worker: pairs + whole,
            both: (p1 - 1.0) * (whole + pairs),
        };
        SchemeCosts {
            parameter_server,
            sufficient_factors: factors.map(|pairs| 2.0 * (p1 - 1.0) * pairs),
            adam: factors.map(adam),
        }
    }

    /// Returns the cheaper scheme where every node is a worker and a server: factors if
    /// `2K(P₁−1)(M+N) ≤ 2MN(P₁+P₂−2)/P₂`, and only if there are any.
    ///
    /// ```
    /// use hemiola_collective_proto::cost::{MatrixUpdate, Scheme};
    /// let layer = MatrixUpdate { rows: 4096, columns: 4096, factors: Some(32), workers: 8, servers: 8 };
    /// assert_eq!(layer.best_scheme(), Scheme::SufficientFactors);
    /// ```
    #[must_use]
    pub fn best_scheme(&self) -> Scheme {
        let [m, n, p1, p2] = [self.rows, self.columns, self.workers, self.servers].map(u128::from);
        match self.factors {
            // Both sides times P₂ / 2. A product that saturates is too large to send in any case.
            Some(k)
                if {
                    let by_factors =
                        u128::from(k).saturating_mul(p1.saturating_sub(1)).saturating_mul(m + n).saturating_mul(p2);
                    by_factors <= m.saturating_mul(n).saturating_mul((p1 + p2).saturating_sub(2))
                } =>
            {
                Scheme::SufficientFactors
            }
            _ => Scheme::ParameterServer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VGG19: MatrixUpdate = MatrixUpdate { rows: 4096, columns: 4096, factors: Some(32), workers: 8, servers: 8 };

    #[test]
    fn the_printed_example_of_vgg19() {
        let costs = VGG19.costs();
        // "≈ 34 million for a worker node, ≈ 34 million for a server node, ≈ 58.7 million for both, ≈ 3.7 million using factors".
        let millions = |numbers: f64| (numbers / 1e5).round() / 10.0;
        assert!((millions(costs.parameter_server.worker) - 33.6).abs() < 1e-9);
        assert!((millions(costs.parameter_server.server) - 33.6).abs() < 1e-9);
        assert!((millions(costs.parameter_server.both) - 58.7).abs() < 1e-9);
        assert!((millions(costs.sufficient_factors.unwrap()) - 3.7).abs() < 1e-9);
        assert_eq!(VGG19.best_scheme(), Scheme::SufficientFactors);
    }

    #[test]
    fn convolutions_go_through_servers() {
        let convolution = MatrixUpdate { factors: None, ..VGG19 };
        assert_eq!(convolution.best_scheme(), Scheme::ParameterServer);
        assert_eq!(convolution.costs().sufficient_factors, None);
    }

    #[test]
    fn the_choice_turns_where_the_costs_cross() {
        // With P₁ = P₂ = P the rule is K (M + N) P ≤ 2 M N; for squares K P ≤ M.
        for (factors, workers, expected) in [
            (512, 8, Scheme::SufficientFactors),
            (513, 8, Scheme::ParameterServer),
            (32, 128, Scheme::SufficientFactors),
            (32, 129, Scheme::ParameterServer),
        ] {
            let update = MatrixUpdate { factors: Some(factors), workers, servers: workers, ..VGG19 };
            assert_eq!(update.best_scheme(), expected, "{update:?}");
        }
    }

    #[test]
    fn the_choice_is_the_cheaper_of_the_table() {
        for rows in [1, 10, 1000, 4096] {
            for columns in [1, 7, 4096] {
                for factors in [1, 32, 256] {
                    for (workers, servers) in [(1, 1), (2, 1), (8, 8), (8, 2), (64, 16)] {
                        let update = MatrixUpdate { rows, columns, factors: Some(factors), workers, servers };
                        let costs = update.costs();
                        let cheaper = costs.sufficient_factors.unwrap() <= costs.parameter_server.both;
                        assert_eq!(update.best_scheme() == Scheme::SufficientFactors, cheaper, "{update:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn adam_overloads_its_server() {
        let costs = VGG19.costs();
        let adam = costs.adam.unwrap();
        assert!(adam.worker < costs.parameter_server.worker && adam.server > 3.0 * costs.parameter_server.server);
    }

    #[test]
    fn sizes_beyond_64_bits_are_compared_exactly() {
        let large = 1_000_000_000_000;
        let update =
            MatrixUpdate { rows: large, columns: large, factors: Some(large), workers: 1_000_000, servers: 1_000_000 };
        assert_eq!(update.best_scheme(), Scheme::ParameterServer);
        assert_eq!(MatrixUpdate { factors: Some(1), ..update }.best_scheme(), Scheme::SufficientFactors);
    }
}
