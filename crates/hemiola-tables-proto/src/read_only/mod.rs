//! Rows that are read-only between barriers of all workers: the parameter server of served arrays.
//!
//! The rows of a served array stay with the peer that has them, and workers fetch copies of rows of
//! other peers. Rows change only while all workers wait at a barrier, so every copy belongs to one
//! clock, and it is valid until the next barrier. The full client of a table is unnecessary for
//! such rows: they need no versions, sums, subscriptions or staleness bound, their cells may be of
//! any type, and they must not be copied into a store of the server. This module is the part of the
//! protocol that remains. The partition of rows over shards
//! ([`RangePartition`](crate::RangePartition)), the placement of shards on peers
//! ([`TablePlacement`](crate::TablePlacement)), key lists ([`key_list`](crate::key_list)) and the
//! index of cached rows ([`KeyIndex`](crate::store::KeyIndex)) are those of tables.
//!
//! Cells are opaque: the host encodes and decodes them. Messages of one worker to one shard are
//! answered in their order. See "Read-only rows" in the README of this crate.
//!
//! | file | concept |
//! |---|---|
//! | [`client`] | [`ReadOnlyClient`]: rows that one worker has fetched, and its requests in flight |
//! | [`server`] | [`ReadOnlyServer`]: one shard; [`RowSource`]: the rows, which their owner keeps |
//! | [`message`] | [`RowRequest`] and the encoding of updates |
//! | `row_cache` | cached rows that do not move while others are added |

pub mod client;
pub mod message;
mod row_cache;
pub mod server;

pub use client::ReadOnlyClient;
pub use message::{ReadOnlyError, RowRequest};
pub use server::{ReadOnlyServer, RowSource};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::RangePartition;
    use crate::spec::ShardId;
    use hemiola_core::WorkerId;
    use proptest::prelude::*;
    use std::ops::Range;

    /// Rows of two strings each, which are encoded by their lengths and bytes.
    struct StringRows {
        first: u64,
        rows: Vec<[String; 2]>,
    }

    impl RowSource for StringRows {
        fn append_rows(&self, rows: &[u64], cells: &mut Vec<u8>) {
            for cell in rows.iter().flat_map(|row| &self.rows[(row - self.first) as usize]) {
                cells.push(cell.len() as u8);
                cells.extend(cell.bytes());
            }
        }
    }

    fn decode(mut bytes: &[u8]) -> Vec<String> {
        let mut cells = Vec::new();
        while let [length, rest @ ..] = bytes {
            let (cell, rest) = rest.split_at(*length as usize);
            cells.push(String::from_utf8(cell.to_vec()).unwrap());
            bytes = rest;
        }
        cells
    }

    fn cells_of(row: u64) -> [String; 2] {
        [format!("{row}"), format!("{row}, second cell")]
    }

    /// Shards of all peers and the client of one worker, on a network that delivers at once.
    struct Network {
        shards: Vec<(ReadOnlyServer, StringRows)>,
        client: ReadOnlyClient<String>,
        requests: usize,
    }

    impl Network {
        fn new(partition: &RangePartition, home: usize) -> Self {
            let shard = |number: usize| {
                let server = ReadOnlyServer::new(partition, ShardId::new(number as u32));
                let rows = StringRows { first: server.owned().start, rows: server.owned().map(cells_of).collect() };
                (server, rows)
            };
            let shards = (0..partition.shards()).map(shard).collect();
            let client = ReadOnlyClient::new(3, WorkerId::new(1), ShardId::new(home as u32), partition.clone(), 2);
            Self { shards, client, requests: 0 }
        }

        /// Delivers all requests and answers of a fetch.
        fn deliver(&mut self) {
            let requests: Vec<_> = self.client.requests(b"prefix").collect();
            for (shard, bytes) in requests {
                self.requests += 1;
                let request = RowRequest::decode(bytes.strip_prefix(b"prefix").unwrap()).unwrap();
                assert_eq!((request.table, request.worker), (3, WorkerId::new(1)));
                assert_eq!(self.client.awaited(), Some((shard, request.keys.len() * 2)));
                let (server, rows) = &self.shards[shard.index()];
                let mut cells = Vec::new();
                server.answer(&request.keys, rows, &mut cells).unwrap();
                self.client.on_rows(decode(&cells)).unwrap();
            }
            assert_eq!(self.client.awaited(), None);
        }
    }

    proptest! {
        #[test]
        fn every_read_returns_the_row_of_its_owner(
            mut ends in prop::collection::vec(0_u64..40, 1..5), home in 0_usize..5,
            mut block in prop::collection::vec(0_u64..40, 0..20), single in prop::collection::vec(0_u64..40, 0..20),
            range in 0_u64..40,
        ) {
            ends.sort_unstable();
            ends.push(40);
            let partition = RangePartition::new(ends);
            let home = home % partition.shards();
            let own = partition.range(ShardId::new(home as u32));
            let own_cells: Vec<String> = own.clone().flat_map(cells_of).collect();
            block.sort_unstable();
            block.dedup();
            let mut network = Network::new(&partition, home);
            network.client.prefetch(&block);
            network.deliver();
            let mut owners: Vec<usize> = block.iter().map(|row| partition.shard_of(*row).index()).collect();
            owners.dedup();
            prop_assert_eq!(network.requests, owners.iter().filter(|shard| **shard != home).count());
            for row in &block {
                let expected = (!own.contains(row)).then(|| cells_of(*row));
                prop_assert_eq!(network.client.find(*row), expected.as_ref().map(|cells| &cells[..]));
            }
            let mut addresses = Vec::new();
            let mut misses = 0;
            for row in single.iter().filter(|row| !own.contains(row)) {
                if network.client.find(*row).is_none() {
                    network.client.fetch_row(*row);
                    network.deliver();
                    misses += 1;
                }
                let cells = network.client.find(*row).unwrap();
                prop_assert_eq!(cells, cells_of(*row));
                addresses.push((*row, cells.as_ptr()));
            }
            let wanted: Range<u64> = range.min(single.len() as u64)..range;
            network.client.fetch_range(wanted.clone(), &own_cells);
            network.deliver();
            let expected: Vec<String> = wanted.flat_map(cells_of).collect();
            prop_assert_eq!(network.client.last_range(), &expected[..]);
            prop_assert_eq!(network.client.misses(), misses + 1);
            // Rows that were added later have moved no other.
            for (row, address) in addresses {
                prop_assert_eq!(network.client.find(row).unwrap().as_ptr(), address);
            }
            network.client.clear();
            prop_assert!((0..40).all(|row| network.client.find(row).is_none()));
        }
    }

    #[test]
    fn rows_of_other_shards_are_refused() {
        let partition = RangePartition::new(vec![10, 16]);
        let network = Network::new(&partition, 0);
        let (server, rows) = &network.shards[1];
        let error = server.answer(&[12, 16], rows, &mut Vec::new()).unwrap_err().to_string();
        assert_eq!(error, "row 16 was requested from the owner of rows 10..16");
    }

    #[test]
    fn answers_must_be_requested_and_complete() {
        let mut network = Network::new(&RangePartition::new(vec![10, 16]), 0);
        let unrequested = network.client.on_rows(vec![String::new(); 2]).unwrap_err();
        assert_eq!(unrequested, ReadOnlyError::NotRequested);
        network.client.fetch_row(12);
        let short = network.client.on_rows(vec![String::new()]).unwrap_err().to_string();
        assert_eq!(short, "shard 1 answered with 1 cells, but 2 were requested");
        assert_eq!(network.client.find(12), None);
    }
}
