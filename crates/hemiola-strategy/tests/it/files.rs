//! Strategies in files and on paper.

use hemiola_core::Rank;
use hemiola_strategy::{Builder, Cluster, Costs, Link, Model, Strategy, Variable, explain};

/// A small net of each kind of layer.
pub(crate) fn model() -> Model {
    Model::new(vec![
        Variable::embedding("words", 50_021, 128, 2_000),
        Variable::dense("convolution.weight", [64, 32, 3, 3]),
        Variable::dense("convolution.bias", [64]),
        Variable::linear("hidden.weight", 4096, 2048, 32),
        Variable::dense("hidden.bias", [2048]),
        Variable::dense("scale", []),
    ])
    .unwrap()
}

pub(crate) fn cluster() -> Cluster {
    Cluster::uniform(4, Link::bits(1e9, 1e-4))
}

#[test]
fn every_builders_strategy_passes_and_comes_back_from_files() {
    for peers in [1, 2, 3, 4, 7, 16] {
        let cluster = Cluster::uniform(peers, Link::bits(1e9, 1e-4));
        for builder in Builder::ALL {
            let strategy = builder.build(&model(), &cluster).unwrap();
            assert_eq!(strategy.plans.len(), model().variables.len(), "{builder}");
            for text in [strategy.to_json(), strategy.to_toml()] {
                assert_eq!(Strategy::parse(&text).unwrap(), strategy, "{builder} on {peers}\n{text}");
            }
            assert_eq!(builder.build(&model(), &cluster).unwrap(), strategy, "a builder is a function");
            assert!(strategy.differences(&strategy).is_empty());
        }
    }
}

#[test]
fn a_strategy_reads_well() {
    let strategy = Builder::Cheapest.build(&model(), &cluster()).unwrap();
    let text = strategy.to_string();
    assert!(text.starts_with("trained on peers 0 to 3\n"), "{text}");
    let line = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).unwrap().to_owned();
    assert!(line("words").ends_with("touched rows served by peers 0 to 3, by rows"), "{text}");
    assert!(line("hidden.weight").ends_with("factors to everybody"), "{text}");
    assert!(line("scale").contains("all-reduce in group"), "{text}");
}

#[test]
fn differences_name_variables_and_both_ways() {
    let one = Builder::AllReduce { chunk: Some(2) }.build(&model(), &cluster()).unwrap();
    let mut other = one.clone();
    other.plans[3] = Builder::Poseidon.build(&model(), &cluster()).unwrap().plans[3].clone();
    // Another number for the same group is no difference.
    for plan in &mut other.plans {
        for node in &mut plan.nodes {
            if let hemiola_strategy::Synchronizer::AllReduce { group, .. } = &mut node.synchronizer {
                *group += 100;
            }
        }
    }
    let said: Vec<String> = one.differences(&other).iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said[0].starts_with("convolution.bias: [64] all-reduce with hidden.weight -> [64] all-reduce alone"),
        "{said:?}"
    );
    assert!(
        said[1].starts_with(
            "hidden.weight: [4096, 2048] all-reduce with convolution.bias -> [4096, 2048] factors to everybody"
        ),
        "{said:?}"
    );
    let fewer = Strategy::new(4, vec![Rank::ROOT], one.plans[..5].to_vec());
    let said: Vec<String> = fewer.differences(&one).iter().map(ToString::to_string).collect();
    assert_eq!(said[0], "training: on peer 0 -> on peers 0 to 3");
    assert!(said.last().unwrap().starts_with("scale: nothing -> [] all-reduce"), "{said:?}");
}

#[test]
fn an_explanation_has_every_variable_with_bytes_time_and_runner_up() {
    let (model, cluster) = (model(), cluster());
    let strategy = Builder::Cheapest.build(&model, &cluster).unwrap();
    let explanation = explain(&strategy, &model, &cluster);
    let text = explanation.to_string();
    for variable in &model.variables {
        let line = text.lines().find(|line| line.starts_with(&variable.name)).unwrap_or_else(|| panic!("{text}"));
        assert!(line.contains("B [") && line.contains(": "), "{line}");
    }
    assert!(text.contains("hidden.weight") && text.contains("factors to everybody"), "{text}");
    assert!(text.lines().last().unwrap().starts_with("a step of 4 peers sends "), "{text}");
    let replicas: Vec<Rank> = cluster.ranks().collect();
    let load = Costs::new(&cluster, &replicas).strategy(&model, &strategy);
    assert!(
        (explanation.seconds() - load.seconds()).abs() < 1e-12 && (explanation.bytes() - load.total()).abs() < 1e-6
    );
    let json = serde_json::to_value(&explanation).unwrap();
    assert_eq!(json["variables"][0]["runner_up"]["way"], "all-reduce", "{json}");
    assert_eq!(json["variables"][5]["runner_up"]["way"], "served by peer 0", "{json}");
}

#[test]
fn the_papers_directions() {
    let vgg = Model::new(vec![
        Variable::dense("features", [14_714_688]),
        Variable::linear("classifier.0", 25_088, 4096, 32),
        Variable::linear("classifier.1", 4096, 4096, 32),
        Variable::linear("classifier.2", 4096, 1000, 32),
    ])
    .unwrap();
    let cluster = Cluster::uniform(4, Link::bits(1e8, 2e-4));
    let bytes =
        |builder: Builder, model: &Model| explain(&builder.build(model, &cluster).unwrap(), model, &cluster).bytes();
    // Section 3.3: factors make large linear layers cheap.
    for builder in [Builder::Poseidon, Builder::Cheapest] {
        assert!(bytes(builder, &vgg) <= 0.3 * bytes(Builder::ParameterServer, &vgg), "{builder}");
    }
    // Parallax: what is touched is little.
    let ncf = Model::new(vec![
        Variable::embedding("users", 138_000, 64, 1024),
        Variable::embedding("items", 27_000, 64, 1024),
        Variable::linear("hidden", 128, 64, 1024),
    ])
    .unwrap();
    assert!(3.0 * bytes(Builder::Parallax, &ncf) <= bytes(Builder::AllReduce { chunk: None }, &ncf));
}
