"""Checks ONNX files and runs them with ONNX Runtime.

Arguments: a JSON file with a list of `{"file", "input", "values"}`, where a missing value is null. Prints a JSON list of the
outputs of each file by name.
"""

import json
import sys

import numpy as np
import onnx
import onnxruntime

results = []
for job in json.load(open(sys.argv[1])):
    model = onnx.load(job["file"])
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(job["file"], providers=["CPUExecutionProvider"])
    dtype = {"features": "float32", "images": "uint8"}[job["input"]]
    values = np.array(job["values"], "float64").astype(dtype)
    names = [output.name for output in session.get_outputs()]
    outputs = session.run(names, {job["input"]: values})
    results.append({name: output.tolist() for name, output in zip(names, outputs)})
print(json.dumps(results))
