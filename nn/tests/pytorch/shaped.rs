//! Layers that are built by settings for a shape, with their parameters.

use std::sync::Arc;

use millrace_nn::layer::{
    Alone, AveragePool2dConfig, ConvTranspose2dConfig, GlobalMaxPool2dConfig, Layer,
    LayerNormConfig, Mode, SoftmaxConfig, UpsampleConfig,
};
use millrace_nn::{Element, Shape};
use serde_json::Value;

use super::fixtures::{cases, numbers};
use super::{from_planes, same, same_output, shape, sizes};

fn build<E: Element>(kind: &str, settings: &Value, input: Shape) -> Arc<dyn Layer<E>> {
    let pair = |name: &str, default| match settings[name].is_null() {
        true => default,
        false => sizes(settings, name),
    };
    match kind {
        "conv_transpose2d" => {
            let filters = settings["filters"].as_u64().unwrap() as usize;
            let config = ConvTranspose2dConfig::new(filters, sizes(settings, "kernel"))
                .stride(pair("stride", [1, 1]))
                .padding(pair("padding", [0, 0]))
                .output_padding(pair("output_padding", [0, 0]))
                .dilation(pair("dilation", [1, 1]))
                .groups(settings["groups"].as_u64().unwrap_or(1) as usize);
            Arc::new(config.build(kind, input).unwrap())
        }
        "layer_norm" => Arc::new(LayerNormConfig::default().build(kind, input).unwrap()),
        "softmax" => Arc::new(SoftmaxConfig.build(kind, input).unwrap()),
        "global_max_pool2d" => Arc::new(GlobalMaxPool2dConfig.build(kind, input).unwrap()),
        "upsample" => {
            let bilinear = settings["mode"] == "bilinear";
            let config = UpsampleConfig { factor: sizes(settings, "factor"), bilinear };
            Arc::new(config.build(kind, input).unwrap())
        }
        "average_pool2d" => {
            let config = AveragePool2dConfig {
                window: Some(sizes(settings, "window")),
                stride: Some(sizes(settings, "stride")),
                padding: sizes(settings, "padding"),
                count_padding: settings["count_padding"].as_bool().unwrap(),
            };
            Arc::new(config.build(kind, input).unwrap())
        }
        other => panic!("{other}"),
    }
}

pub(super) fn shaped_layers<E: Element>() {
    for case in cases("shaped_layers.json") {
        let input = shape(&case["shape"]);
        let layer = build::<E>(case["kind"].as_str().unwrap(), &case["settings"], input);
        let output = layer.output();
        let parameters: Vec<Vec<E>> =
            case["parameters"].as_array().unwrap().iter().map(numbers).collect();
        let mut layer = Alone::new(layer, &[input], parameters);
        let x = from_planes(&numbers::<E>(&case["x"]), input);
        let y = layer.forward(Mode::train(0), &[&x]);
        same_output(&case, "y", &y, output);
        let gradients = layer.backward(&from_planes(&numbers::<E>(&case["dy"]), output));
        same_output(&case, "dx", &gradients.x[0], input);
        let wanted = case["dparameters"].as_array().unwrap();
        assert_eq!(gradients.parameters.len(), wanted.len());
        for (got, wanted) in gradients.parameters.iter().zip(wanted) {
            same(&serde_json::json!({ "dparameter": wanted }), "dparameter", got);
        }
    }
}
