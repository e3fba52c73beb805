//! Data files, read as `hemiola train` reads them: by a peer of a cluster, with detection of the
//! format.

use super::{FuzzTarget, PreparedTarget};
use hemiola::Cluster;
use hemiola::array::read::{Columnar, InputFile, Ldac, Libsvm};
use hemiola::models::{lda, linear, mf};
use hemiola::prelude::*;

pub(super) const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "ratings", about: "ratings: user, item, value per line", prepare: ratings },
    FuzzTarget { name: "compressed", about: "ratings in gzip, Zstandard and bzip2 files", prepare: compressed },
    FuzzTarget { name: "events", about: "events: user, item per line", prepare: events },
    FuzzTarget { name: "examples", about: "labelled examples: LIBSVM or separated values", prepare: examples },
    FuzzTarget { name: "libsvm", about: "LIBSVM text, counted from 0", prepare: libsvm },
    FuzzTarget { name: "documents", about: "documents: text or bags of words", prepare: documents },
    FuzzTarget { name: "ldac", about: "LDA-C text", prepare: ldac },
    FuzzTarget { name: "docword", about: "bags of words of the UCI repository", prepare: docword },
    FuzzTarget { name: "matrix-market", about: "Matrix Market files", prepare: matrix_market },
    FuzzTarget { name: "npy", about: "NumPy arrays", prepare: npy },
    FuzzTarget { name: "columnar", about: "Parquet and Arrow IPC files", prepare: columnar },
];

/// Creates a target that writes the input to a file and reads it on a cluster of one peer.
fn of_file(
    name: &'static str,
    seeds: Vec<Vec<u8>>,
    read: impl Fn(&Cluster, &str) -> hemiola::Result<()> + Sync + Copy + 'static,
) -> anyhow::Result<PreparedTarget> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join(name);
    Ok(PreparedTarget::new(seeds, move |input| {
        // The folder lives as long as the target.
        let _folder = &folder;
        std::fs::write(&path, input).expect("the temporary folder is writable");
        let path = path.to_str().expect("a temporary path is text");
        hemiola::standalone(1).workers(1).run(|cluster| read(cluster, path)).is_ok()
    }))
}

/// Returns texts as bytes.
fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn ratings() -> anyhow::Result<PreparedTarget> {
    let seeds = texts(&[
        "1,2,3.5\n2,1,4\n3,3,1\n",
        "userId,movieId,rating,timestamp\n1,31,2.5,1260759144\n1,1029,3.0,1260759179\n2,31,4,5\n",
        "1::1193::5::978300760\n1::661::3::978302109\n2::1193::1::97\n",
        "196\t242\t3\t881250949\n186\t302\t3\t891717742\n",
        "\"a,b\",\"c\"\"d\",1\nx,c,2\n",
    ]);
    of_file("ratings.csv", seeds, |cluster, path| Ok(mf::data::read(cluster, None, path).map(drop)?))
}

fn compressed() -> anyhow::Result<PreparedTarget> {
    // The seeds are in `corpus/`.
    of_file("ratings.packed", Vec::new(), |cluster, path| Ok(mf::data::read(cluster, None, path).map(drop)?))
}

fn events() -> anyhow::Result<PreparedTarget> {
    let seeds = texts(&["1,2\n2,1\n3,3\n", "user item\nann tea\nbob tea\nann milk\n"]);
    of_file("events.csv", seeds, |cluster, path| Ok(mf::data::read_events(cluster, None, path).map(drop)?))
}

fn examples() -> anyhow::Result<PreparedTarget> {
    let seeds = texts(&[
        "+1 1:0.5 3:1 7:2e-3\n-1 2:1\n+1 # nothing\n",
        "species,length,width\nsetosa,5.1,3.5\nvirginica,6.3,3.3\n",
        "1.5;2;3\n0.5;1;7\n",
        "3 1:1 2:2\n1 1:0.25 100000:1\n",
    ]);
    of_file("examples.txt", seeds, |cluster, path| {
        Ok(linear::data::read(cluster, &linear::data::LinearReadOptions::default(), path).map(drop)?)
    })
}

fn libsvm() -> anyhow::Result<PreparedTarget> {
    let seeds = texts(&["1 0:1 2:0.5\n0 1:3\n", "-1 qid:3 5:1e10\n"]);
    of_file("examples.svm", seeds, |cluster, path| {
        Ok(cluster.read_libsvm(Libsvm::new().zero_based(true), path).map(drop)?)
    })
}

fn documents() -> anyhow::Result<PreparedTarget> {
    let seeds = texts(&[
        "The ship left the harbour.\nA storm hit the ship in the harbour\n",
        "2 0:1 3:2\n1 3:4\n",
        "2\n3\n3\n1 1 2\n1 3 1\n2 2 5\n",
    ]);
    of_file("documents.txt", seeds, |cluster, path| {
        Ok(lda::data::read(cluster, &lda::data::CorpusReadOptions::default(), path).map(drop)?)
    })
}

fn ldac() -> anyhow::Result<PreparedTarget> {
    let seeds = texts(&["2 0:1 3:2\n1 3:4\n", "0\n1 7:1\n"]);
    of_file("words.ldac", seeds, |cluster, path| Ok(cluster.read_ldac(Ldac::new(), path).map(drop)?))
}

fn docword() -> anyhow::Result<PreparedTarget> {
    let seeds = texts(&["2\n3\n3\n1 1 2\n1 3 1\n2 2 5\n", "1\n1\n1\n1 1 1\n"]);
    of_file("docword.txt", seeds, |cluster, path| Ok(cluster.read_docword(path, None).map(drop)?))
}

fn matrix_market() -> anyhow::Result<PreparedTarget> {
    let seeds = texts(&[
        "%%MatrixMarket matrix coordinate real general\n% a comment\n3 3 2\n1 1 0.5\n3 2 -1\n",
        "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 3\n",
        "%%MatrixMarket matrix array integer general\n2 2\n1\n2\n3\n4\n",
    ]);
    of_file("matrix.mtx", seeds, |cluster, path| Ok(cluster.read_matrix_market(path).map(drop)?))
}

fn npy() -> anyhow::Result<PreparedTarget> {
    let file = |header: &str, data: &[u8]| {
        let mut header = header.to_owned();
        header.push_str(&" ".repeat((64 - (11 + header.len()) % 64) % 64));
        header.push('\n');
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    };
    let floats: Vec<u8> = (0..6).flat_map(|number| (number as f32).to_le_bytes()).collect();
    let seeds = vec![
        file("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", &floats),
        file("{'descr': '>i2', 'fortran_order': True, 'shape': (3, 4), }", &floats),
    ];
    of_file("array.npy", seeds, |cluster, path| Ok(cluster.read_npy::<f32, 2>(path).map(drop)?))
}

fn columnar() -> anyhow::Result<PreparedTarget> {
    of_file("table.parquet", Vec::new(), |_, path| {
        let open = || -> hemiola::array::Result<()> {
            let file = Columnar::open(&InputFile::open(path)?)?;
            let (Some(first), Some(second)) = (file.columns().first().cloned(), file.columns().get(1).cloned()) else {
                return Ok(());
            };
            file.read::<(i64, f64)>(0..file.groups(), &[&first, &second], |_| {}).map(drop)
        };
        Ok(open().map_err(hemiola::cluster::Error::from)?)
    })
}
