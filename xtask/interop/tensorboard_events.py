"""Event files and the tensorboard package: makes the golden file, and reads what the program wrote.

    python tensorboard_events.py golden FILE        the events of EVENTS below, as the package encodes them
    python tensorboard_events.py check RUN          every scalar of RUN/metrics.jsonl is in RUN/tensorboard, with its value
"""

import glob
import json
import math
import struct
import sys

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

TIME = 1700000000.25
EVENTS = [
    (8, [("lm loss", 4.5), ("learning_rate", 0.0), ("grad_norm", math.nan)]),
    (300, [("x" * 200, -1e-30), ("tokens_per_s", 123456.789), ("skipped", 1.0)]),
    (2**40, []),
]


def golden(path):
    with open(path, "wb") as file:
        writer = RecordWriter(file)
        writer.write(event_pb2.Event(wall_time=TIME, file_version="brain.Event:2").SerializeToString())
        start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        writer.write(event_pb2.Event(wall_time=TIME, step=8, session_log=start).SerializeToString())
        for step, values in EVENTS:
            value = [summary_pb2.Summary.Value(tag=tag, simple_value=number) for tag, number in values]
            event = event_pb2.Event(wall_time=TIME, step=step, summary=summary_pb2.Summary(value=value))
            writer.write(event.SerializeToString())
        writer.flush()


def check(run):
    from tensorboard.backend.event_processing import event_accumulator

    folder = f"{run}/tensorboard"
    files = sorted(glob.glob(f"{folder}/events.out.tfevents.*"))
    if not files:
        sys.exit(f"{folder} holds no event file")
    scalars = event_accumulator.EventAccumulator(folder, size_guidance={"scalars": 0})
    scalars.Reload()
    expected = {}
    with open(f"{run}/metrics.jsonl") as file:
        for record in map(json.loads, file):
            if record.get("event") == "resume":
                expected = {key: value for key, value in expected.items() if key[1] <= record["step"]}
            elif "event" not in record:
                for tag, value in record.items():
                    if tag != "iteration" and (value is None or isinstance(value, (int, float))):
                        expected[tag, record["iteration"]] = math.nan if value is None else float(value)
    tags = sorted({tag for tag, _ in expected})
    found = {(tag, event.step): event.value for tag in tags for event in scalars.Scalars(tag)}
    if found.keys() != expected.keys():
        sys.exit(f"the package reads other points: {sorted(found.keys() ^ expected.keys())[:5]}")
    for key, value in expected.items():
        single = struct.unpack("f", struct.pack("f", value))[0]
        if found[key] != single and not (math.isnan(single) and math.isnan(found[key])):
            sys.exit(f"{key}: {found[key]} in the event file, {single} in the metrics")
    print(f"tensorboard reads {len(expected)} points of {len(tags)} series from {len(files)} files")


if __name__ == "__main__":
    {"golden": golden, "check": check}[sys.argv[1]](sys.argv[2])
