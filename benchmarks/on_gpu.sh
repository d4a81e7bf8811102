#!/usr/bin/env bash
# All that a machine with a GPU has to tell, in a quarter of an hour as estimated; files in a folder, each as soon as it is known.
#   bash benchmarks/on_gpu.sh FOLDER                        all stages
#   bash benchmarks/on_gpu.sh FOLDER "cifar fisher"         some of tests, cifar, rounds, fisher, compile, methods, models
#   MODELS="cnn lenet5" bash benchmarks/on_gpu.sh FOLDER models      some of rounds.py's
#   SMOKE=1 bash benchmarks/on_gpu.sh FOLDER                without a GPU: does it run?
# Steps are compiled beside the tests, or in the stage "compile", by several processes, and found in the cache by what is
# measured then, alone.
set -u
folder=$(realpath -m "${1:?the folder for the results is missing}") && cd "$(dirname "$0")/.." || exit
stages=${2:-tests cifar rounds fisher compile methods models}
mkdir -p "$folder"
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
python=${PYTHON:-python3} device=cuda smoke=() marks=gpu
[ -z "${SMOKE:-}" ] || { device=cpu smoke=(--smoke) marks='not slow and not gpu'; }
stage() { [[ " $stages " == *" $1 "* ]] && printf '\n== %s (%s s)\n' "$1" "$SECONDS"; }
bench() { "$python" "benchmarks/$1.py" --device "$device" "${@:2}" "${smoke[@]}"; }
measured() { bench "$@" || failed=1; }
compiling=0 failed=0 jobs=() logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
beside() {
    compiling=$((compiling + 1))
    local log=$logs/$compiling
    { TORCHINDUCTOR_COMPILE_THREADS=2 bench "$@" > "$log" 2>&1 ||
        { echo "failed: $*"; tail -n 3 "$log"; cp "$log" "$folder/failed_$compiling.log"; false; }; } &
    jobs+=($!)
}
all_compiled() {
    for job in "${jobs[@]}"; do wait "$job" || failed=1; done
    jobs=()
}

if stage tests; then
    for precision in float32 tf32; do
        [ "$device" = cpu ] || beside whole_run --lanes 50 --rounds 11 --precision "$precision"
    done
    for workload in mlp cnn cnn_padded resnet18; do beside fisher --workloads "$workload" --rounds 1; done
    beside rounds --ranks 1 --workloads mlp --rounds 2
    "$python" -m pytest -m "$marks" tests/gpu tests/engine/test_graphed.py -v -rf --dist worksteal --color no \
        > "$folder/tests.log" 2>&1 || failed=1
    tail -n 3 "$folder/tests.log"
    all_compiled
fi
if stage cifar; then
    for precision in float32 tf32; do
        [ "$device" = cpu ] && [ $precision = tf32 ] && continue
        measured whole_run --lanes 50 --precision $precision --results "$folder/cifar10_$precision.json"
    done
fi
if stage rounds; then measured rounds --ranks 1 --workloads mlp --rounds 20 --out "$folder/rounds_mlp.json"; fi
if stage fisher; then measured fisher --out "$folder/fisher.json"; fi
if stage compile; then
    names() { "$python" -c "import sys; sys.path.insert(0, 'benchmarks'); from $1 import $2; print(*$2)"; }
    few() { if [ "$device" = cpu ]; then sed -n 1p; else cat; fi; } # smoke runs are all alike
    models=$(names rounds WORKLOADS) && methods=$(names methods LOOPS) || exit
    for model in $(tr ' ' '\n' <<< "${MODELS:-$models}" | few); do beside rounds --ranks 1 --workloads "$model" --rounds 1 --samples 40; done
    while read -r -a pair; do beside methods --methods "${pair[@]}" --no-norms --rounds 1; done < <(xargs -n 2 <<< "$methods" | few)
    beside methods --methods --rounds 1 # the norms
    all_compiled
fi
if stage methods; then measured methods --out "$folder/methods.json"; fi
if stage models; then measured rounds --ranks 1 --workloads ${MODELS:-all} --rounds 4 --samples 40 --out "$folder/rounds_models.json"; fi
exit $failed
