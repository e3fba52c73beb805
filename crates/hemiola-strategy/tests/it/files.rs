//! Strategies in files and as text.

use hemiola_core::Rank;
use hemiola_strategy::{
    CostModel, LinkSpec, ModelSpec, PeerSpec, ResourceSpec, Strategy, StrategyBuilder, VariableSpec, explain,
};

/// Small net with each kind of layer.
pub(crate) fn model() -> ModelSpec {
    ModelSpec::new(vec![
        VariableSpec::embedding("words", [50_021, 128], 2_000),
        VariableSpec::dense("convolution.weight", [64, 32, 3, 3]),
        VariableSpec::dense("convolution.bias", [64]),
        VariableSpec::linear("hidden.weight", [4096, 2048], 32),
        VariableSpec::dense("hidden.bias", [2048]),
        VariableSpec::dense("scale", []),
    ])
    .unwrap()
}

pub(crate) fn cluster() -> ResourceSpec {
    ResourceSpec::uniform(4, LinkSpec::bits(1e9, 1e-4))
}

#[test]
fn strategies_of_all_builders_are_valid_and_round_trip() {
    for peers in [1, 2, 3, 4, 7, 16] {
        let cluster = ResourceSpec::uniform(peers, LinkSpec::bits(1e9, 1e-4));
        for builder in StrategyBuilder::all() {
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
fn a_strategy_has_a_readable_text_form() {
    let strategy = StrategyBuilder::Cheapest.build(&model(), &cluster()).unwrap();
    let text = strategy.to_string();
    assert!(text.starts_with("trained on peers 0 to 3\n"), "{text}");
    let line = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).unwrap().to_owned();
    assert!(line("words").ends_with("touched rows served by peers 0 to 3, by rows"), "{text}");
    assert!(line("hidden.weight").ends_with("sufficient factors to all peers"), "{text}");
    assert!(line("scale").contains("all-reduce in group"), "{text}");
}

#[test]
fn differences_name_variables_and_both_methods() {
    let one = StrategyBuilder::AllReduce { chunk: Some(2) }.build(&model(), &cluster()).unwrap();
    let mut other = one.clone();
    other.plans[3] = StrategyBuilder::Poseidon.build(&model(), &cluster()).unwrap().plans[3].clone();
    // Another number for the same group is no difference.
    for plan in &mut other.plans {
        for node in &mut plan.nodes {
            if let hemiola_strategy::Synchronizer::AllReduce { group, .. } = &mut node.synchronizer {
                *group += 100;
            }
        }
    }
    let differences: Vec<String> = one.differences(&other).iter().map(ToString::to_string).collect();
    assert_eq!(differences.len(), 2, "{differences:?}");
    assert!(
        differences[0].starts_with("convolution.bias: [64] all-reduce with hidden.weight -> [64] all-reduce alone"),
        "{differences:?}"
    );
    assert!(
        differences[1].starts_with(
            "hidden.weight: [4096, 2048] all-reduce with convolution.bias -> [4096, 2048] sufficient factors to all peers"
        ),
        "{differences:?}"
    );
    let fewer = Strategy::new(4, vec![Rank::ROOT], one.plans[..5].to_vec());
    let differences: Vec<String> = fewer.differences(&one).iter().map(ToString::to_string).collect();
    assert_eq!(differences[0], "training: on peer 0 -> on peers 0 to 3");
    assert!(differences.last().unwrap().starts_with("scale: nothing -> [] all-reduce"), "{differences:?}");
}

#[test]
fn an_explanation_has_every_variable_with_bytes_time_and_runner_up() {
    let (model, cluster) = (model(), cluster());
    let strategy = StrategyBuilder::Cheapest.build(&model, &cluster).unwrap();
    let explanation = explain(&strategy, &model, &cluster);
    let text = explanation.to_string();
    for variable in &model.variables {
        let line = text.lines().find(|line| line.starts_with(&variable.name)).unwrap_or_else(|| panic!("{text}"));
        assert!(line.contains("B [") && line.contains(": "), "{line}");
    }
    assert!(text.contains("hidden.weight") && text.contains("sufficient factors to all peers"), "{text}");
    assert!(text.lines().last().unwrap().starts_with("a step of 4 peers sends "), "{text}");
    let replicas: Vec<Rank> = cluster.ranks().collect();
    let load = CostModel::new(&cluster, &replicas).strategy(&model, &strategy);
    assert!(
        (explanation.seconds() - load.seconds()).abs() < 1e-12 && (explanation.bytes() - load.total()).abs() < 1e-6
    );
    let json = serde_json::to_value(&explanation).unwrap();
    assert_eq!(json["variables"][0]["runner_up"]["method"], "all-reduce", "{json}");
    assert_eq!(json["variables"][5]["runner_up"]["method"], "served by peer 0", "{json}");
}

#[test]
fn all_alternatives_are_listed_with_their_costs() {
    let mut cluster = cluster();
    cluster.peers = ["a", "b", "a", "b"].map(PeerSpec::on).to_vec();
    cluster.within_host = LinkSpec::bits(4e10, 1e-6);
    let strategy = StrategyBuilder::AllReduce { chunk: None }.build(&model(), &cluster).unwrap();
    let explanation = explain(&strategy, &model(), &cluster);
    let json = serde_json::to_value(&explanation).unwrap();
    let alternatives = json["variables"][3]["alternatives"].as_array().unwrap().clone();
    let methods: Vec<&str> = alternatives.iter().map(|other| other["method"].as_str().unwrap()).collect();
    for expected in ["sufficient factors to all peers", "all-reduce, in two levels 0 2 | 1 3", "served by peer"] {
        assert!(methods.iter().any(|method| method.contains(expected)), "{expected} is not in {methods:?}");
    }
    assert!(methods.iter().any(|method| method.ends_with("route 0 2 | 1 3, proxies 0 2 | 1 3")), "{methods:?}");
    let seconds: Vec<f64> = alternatives.iter().map(|other| other["seconds"].as_f64().unwrap()).collect();
    assert!(seconds.is_sorted() && json["variables"][3]["runner_up"] == alternatives[0]);
    let (short, long) = (explanation.to_string(), format!("{explanation:#}"));
    assert!(methods.iter().all(|method| long.contains(method)), "{long}");
    assert!(long.lines().count() > short.lines().count() + model().variables.len() * 2, "{long}");
}

#[test]
fn routes_shares_and_subsets_round_trip_and_differ() {
    let direct = StrategyBuilder::Partitioned { most: None }.build(&model(), &cluster()).unwrap();
    let mut cluster = cluster();
    cluster.peers = ["a", "b", "a", "b"].map(PeerSpec::on).to_vec();
    cluster.peers[0].memory = Some(1 << 30);
    assert_eq!(ResourceSpec::parse(&cluster.to_toml()).unwrap(), cluster);
    let mut shaped = StrategyBuilder::TwoLevel.build(&model(), &cluster).unwrap();
    shaped.plans[0].partitioning.shares = vec![1, 2, 3, 4];
    let shaped = shaped.with_serving_peers(1);
    shaped.verify(&model(), &cluster).unwrap();
    for text in [shaped.to_json(), shaped.to_toml()] {
        assert_eq!(Strategy::parse(&text).unwrap(), shaped, "{text}");
    }
    let differences: Vec<String> = direct.differences(&shaped).iter().map(ToString::to_string).collect();
    assert_eq!(differences[0], "training: on peers 0 to 3 -> on peers 0 to 2");
    assert!(
        differences[1].ends_with("4 shards (4×1 as 1:2:3:4) served by peer 3, route 0 2 | 1, proxies 0 2 | 1"),
        "{differences:?}"
    );
}

#[test]
fn costs_follow_the_claims_of_the_papers() {
    let vgg = ModelSpec::new(vec![
        VariableSpec::dense("features", [14_714_688]),
        VariableSpec::linear("classifier.0", [25_088, 4096], 32),
        VariableSpec::linear("classifier.1", [4096, 4096], 32),
        VariableSpec::linear("classifier.2", [4096, 1000], 32),
    ])
    .unwrap();
    let cluster = ResourceSpec::uniform(4, LinkSpec::bits(1e8, 2e-4));
    let bytes = |builder: StrategyBuilder, model: &ModelSpec| {
        explain(&builder.build(model, &cluster).unwrap(), model, &cluster).bytes()
    };
    // Section 3.3: factors make large linear layers cheap.
    for builder in [StrategyBuilder::Poseidon, StrategyBuilder::Cheapest] {
        assert!(bytes(builder, &vgg) <= 0.3 * bytes(StrategyBuilder::ParameterServer, &vgg), "{builder}");
    }
    // Parallax: a batch touches few rows.
    let ncf = ModelSpec::new(vec![
        VariableSpec::embedding("users", [138_000, 64], 1024),
        VariableSpec::embedding("items", [27_000, 64], 1024),
        VariableSpec::linear("hidden", [128, 64], 1024),
    ])
    .unwrap();
    assert!(3.0 * bytes(StrategyBuilder::Parallax, &ncf) <= bytes(StrategyBuilder::AllReduce { chunk: None }, &ncf));
}
