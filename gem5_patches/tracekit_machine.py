"""One program on one machine of tracekit's parameters, in syscall emulation; a gem5 configuration.

    gem5.opt tracekit_run.py [its options] tracekit_machine.py MACHINE.json [options] -- PROGRAM ...

MACHINE.json holds parameters as docs/machine-parameters.md lists them, all that follow from others
given.  ``tracekit factory`` writes such files and runs this.  Written for gem5 v24.0.
"""

import argparse
import ctypes
import json
import os
import signal
import struct
import sys
from pathlib import Path

import m5
import m5.objects
from m5.objects import (
    AddrRange,
    FUDesc,
    FUPool,
    L2XBar,
    MemCtrl,
    OpDesc,
    Process,
    Root,
    SEWorkload,
    SimpleMemory,
    SrcClockDomain,
    System,
    SystemXBar,
    VoltageDomain,
)

#: gem5's prefix of an instruction set's classes, by the machine of an ELF header.
ISAS = {62: "X86", 183: "Arm", 243: "Riscv"}
PREFETCHERS = {
    "stride": "StridePrefetcher",
    "tagged": "TaggedPrefetcher",
    "bop": "BOPPrefetcher",
    "ampm": "AMPMPrefetcher",
}
REPLACEMENTS = {"lru": "LRURP", "tree_plru": "TreePLRURP", "srrip": "RRIPRP", "random": "RandomRP"}
PREDICTORS = {
    "Local": "LocalBP",
    "Tournament": "TournamentBP",
    "BiMode": "BiModeBP",
    "MPP_8KB": "MultiperspectivePerceptron8KB",
    "MPP_64KB": "MultiperspectivePerceptron64KB",
    "MPP_TAGE_8KB": "MultiperspectivePerceptronTAGE8KB",
    "MPP_TAGE_64KB": "MultiperspectivePerceptronTAGE64KB",
}
STAGES = ("fetch", "decode", "rename", "dispatch", "commit", "squash")
#: A CPU's parameter -> the machine's.
O3 = {
    "issueWidth": "issue_width",
    "wbWidth": "issue_width",
    "numROBEntries": "rob",
    "numIQEntries": "iq",
    "LQEntries": "lq",
    "SQEntries": "sq",
    "numPhysIntRegs": "phys_int",
    "numPhysFloatRegs": "phys_float",
    "numPhysVecRegs": "phys_vec",
    "fetchBufferSize": "fetch_buffer",
    "fetchQueueSize": "fetch_queue",
    "fetchToDecodeDelay": "front_delay",
    "decodeToRenameDelay": "decode_to_rename",
    "renameToIEWDelay": "rename_to_iew",
    "issueToExecuteDelay": "issue_to_exec",
    "cacheLoadPorts": "load_ports",
    "cacheStorePorts": "store_ports",
}


def parse_arguments(argv):
    parser = argparse.ArgumentParser(prog="tracekit_machine.py", description=__doc__.split("\n")[0])
    parser.add_argument("machine", help="JSON file of the machine's parameters")
    parser.add_argument("--skip", type=int, default=0, help="instructions to run first, untimed")
    parser.add_argument("--functional", action="store_true", help="the atomic CPU: no timing")
    parser.add_argument("--stdin", default="", help="file that the program reads as its input")
    parser.add_argument(
        "--with-parent", action="store_true", help="end when the process ends that started this"
    )
    parser.add_argument("--random-seed", type=int, help="of gem5's random numbers (5489)")
    parser.add_argument("command", nargs="+", help="the program and its arguments")
    return parser.parse_args(argv)


def isa_of(program):
    """The instruction set of an ELF file, as gem5's classes begin."""
    with Path(program).open("rb") as f:
        head = f.read(20)
    number = struct.unpack("<H", head[18:20])[0] if head[:4] == b"\x7fELF" else 0
    if number not in ISAS:
        sys.exit(f"tracekit_machine.py: {program} is no ELF file of {', '.join(ISAS.values())}")
    return ISAS[number]


def follow_parent():
    """End with the process that started this one: a killed factory leaves no simulation behind."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        sys.exit("tracekit_machine.py: its parent has ended")


def cache(p, level, mshrs, targets, response):
    """A classic cache; only the first data cache and the second cache prefetch."""
    latency = p[f"{level}_lat"]
    made = m5.objects.Cache(
        size=f"{p[f'{level}_kb']}kB",
        assoc=p[f"{level}_assoc"],
        tag_latency=latency,
        data_latency=latency,
        response_latency=response,
        mshrs=mshrs,
        tgts_per_mshr=targets,
    )
    prefetcher = p.get(f"{level}_pf", "none")
    if prefetcher != "none":
        made.prefetcher = getattr(m5.objects, PREFETCHERS[prefetcher])()
    replacement = p.get(f"{level}_replacement", "lru")
    made.replacement_policy = getattr(m5.objects, REPLACEMENTS[replacement])()
    return made


def vector_latency(p, kind):
    """Cycles of a vector operation."""
    if "Float" in kind:
        if kind in ("SimdFloatDiv", "SimdFloatSqrt"):
            return p["fp_div_lat"]
        if "Mult" in kind:
            return p["fp_mul_lat"]
        return p["fp_add_lat"] if any(k in kind for k in ("Add", "Alu", "Cmp", "Cvt")) else 1
    if "Mult" in kind:
        return p["int_mul_lat"]
    return p["int_div_lat"] if kind in ("SimdDiv", "SimdSqrt") else 1


def units(p):
    """The functional units of the O3 CPU."""

    def ops(names, latency=1, pipelined=True):
        return [OpDesc(opClass=n, opLat=latency, pipelined=pipelined) for n in names]

    every = [str(x) for x in m5.objects.OpClass.vals]
    vector = [x for x in every if x.startswith("Simd") and "Load" not in x and "Store" not in x]
    vector.remove("SimdPredAlu")
    loads = [x for x in every if x.endswith("MemRead") or (x.startswith("Simd") and "Load" in x)]
    stores = [x for x in every if x.endswith("MemWrite") or (x.startswith("Simd") and "Store" in x)]
    divide, add, multiply = p["int_div_lat"], p["fp_add_lat"], p["fp_mul_lat"]
    floating = (
        ops(["FloatAdd", "FloatCmp", "FloatCvt"], add)
        + ops(["FloatMisc"], p.get("fp_misc_lat", add))
        + ops(["FloatMult"], multiply)
        + ops(["FloatMultAcc"], multiply + 1)
        + ops(["FloatDiv"], p["fp_div_lat"], False)
        + ops(["FloatSqrt"], 2 * p["fp_div_lat"], False)
    )
    # A vector operation of nine cycles or more is a division: it takes its unit for itself.
    vectors = [o for x in vector for n in (vector_latency(p, x),) for o in ops([x], n, n < 9)]
    multiplier = ops(["IntMult"], p["int_mul_lat"]) + ops(["IntDiv"], divide, False)
    return FUPool(
        FUList=[
            FUDesc(opList=ops(["IntAlu"]), count=p["int_alu"]),
            FUDesc(opList=multiplier, count=p["int_mul"]),
            FUDesc(opList=floating, count=p["fp"]),
            FUDesc(opList=vectors, count=p["simd"]),
            FUDesc(opList=ops(["SimdPredAlu"]), count=1),
            FUDesc(opList=ops(loads, p["agu_lat"]), count=p["load_ports"]),
            FUDesc(opList=ops(stores, p["agu_lat"]), count=p["store_ports"]),
            FUDesc(opList=ops(["IprAccess"], 3, False), count=1),
        ]
    )


def predictor(p):
    made = getattr(m5.objects, PREDICTORS.get(p["bp"], p["bp"]))()
    made.btb = m5.objects.SimpleBTB(numEntries=p["btb"])
    made.ras = m5.objects.ReturnAddrStack(numEntries=p["ras"])
    return made


def minor(p, isa):
    cpu = getattr(m5.objects, isa + "MinorCPU")(branchPred=predictor(p), cpu_id=0)
    for name in ("decodeInputWidth", "executeInputWidth", "executeIssueLimit"):
        setattr(cpu, name, p["width"])
    cpu.executeCommitLimit = p["width"]
    cpu.executeMemoryIssueLimit = cpu.executeMemoryCommitLimit = 1
    cpu.executeBranchDelay = p["front_delay"]
    return cpu


def out_of_order(p, isa):
    cpu = getattr(m5.objects, isa + "O3CPU")(branchPred=predictor(p), cpu_id=0)
    for stage in STAGES:
        setattr(cpu, stage + "Width", p["width"])
    for theirs, ours in O3.items():
        if ours in p:
            setattr(cpu, theirs, p[ours])
    if isa == "X86":
        cpu.numPhysCCRegs = 5 * p["phys_int"]
    cpu.needsTSO = bool(p["tso"])
    cpu.fuPool = units(p)
    cpu.forwardComSize = cpu.backComSize = 12
    return cpu


def connect(system, cpu, p, isa):
    """A CPU's first caches, walkers and interrupts; without ``p`` it has no caches."""
    cpu.createThreads()
    cpu.createInterruptController()
    below = system.membus if p is None else system.l2bus
    if p is None:
        cpu.icache_port = below.cpu_side_ports
        cpu.dcache_port = below.cpu_side_ports
    else:
        cpu.icache = cache(p, "l1i", 8, 20, 1)
        cpu.dcache = cache(p, "l1d", p["l1d_mshrs"], p["l1d_targets"], p["l1d_response"])
        cpu.icache.cpu_side = cpu.icache_port
        cpu.dcache.cpu_side = cpu.dcache_port
        cpu.icache.mem_side = below.cpu_side_ports
        cpu.dcache.mem_side = below.cpu_side_ports
    if isa == "X86":
        cpu.mmu.itb.walker.port = below.cpu_side_ports
        cpu.mmu.dtb.walker.port = below.cpu_side_ports
        interrupts = cpu.interrupts[0]
        interrupts.pio = system.membus.mem_side_ports
        interrupts.int_requestor = system.membus.cpu_side_ports
        interrupts.int_responder = system.membus.mem_side_ports
    else:
        cpu.mmu.connectWalkerPorts(below.cpu_side_ports, below.cpu_side_ports)


def below_first_caches(system, p):
    """The second cache, the third if there is one, and memory."""
    system.l2bus = L2XBar()
    system.l2 = cache(p, "l2", p["l2_mshrs"], 20, p["l2_response"])
    system.l2.cpu_side = system.l2bus.mem_side_ports
    last = system.l2
    if p["l3_kb"]:
        system.l3bus = L2XBar()
        system.l2.mem_side = system.l3bus.cpu_side_ports
        system.l3 = cache(p, "l3", 32, 20, p["l3_response"])
        system.l3.cpu_side = system.l3bus.mem_side_ports
        last = system.l3
    last.mem_side = system.membus.cpu_side_ports
    system.mem = MemCtrl(dram=getattr(m5.objects, p["mem"])(range=system.mem_ranges[0]))


def build(p, options, isa):
    """The system, its measured CPU, and the CPU that runs first (None: nothing is skipped)."""
    clock = SrcClockDomain(
        clock=f"{round(1000 / p['clock_ghz'])}ps", voltage_domain=VoltageDomain()
    )
    system = System(clk_domain=clock, mem_ranges=[AddrRange("4GB")], membus=SystemXBar())
    system.system_port = system.membus.cpu_side_ports
    first = None
    fast = getattr(m5.objects, isa + "NonCachingSimpleCPU")
    if options.functional:
        system.mem_mode = "atomic"
        system.cpu = getattr(m5.objects, isa + "AtomicSimpleCPU")(cpu_id=0)
        system.mem = SimpleMemory(range=system.mem_ranges[0])
    else:
        system.mem_mode = "timing"
        system.cpu = minor(p, isa) if p.get("cpu") == "minor" else out_of_order(p, isa)
        below_first_caches(system, p)
    # It holds the wires; the other one takes them over, caches cold.  The atomic CPU has it, too:
    # which instructions gem5 counts when it skips hangs on the CPU (none that trapped).
    if options.skip:
        system.mem_mode = "atomic_noncaching"
        first = system.first = fast(cpu_id=0)
        system.cpu.switched_out = True
        system.cpu.createThreads()
    connect(system, first or system.cpu, None if options.functional else p, isa)
    system.mem.port = system.membus.mem_side_ports
    return system, first


def main():
    options = parse_arguments(sys.argv[1:])
    if options.with_parent:
        follow_parent()
    if options.random_seed is not None:
        from _m5.core import seedRandom  # which is inside of gem5 alone

        seedRandom(options.random_seed)
    p = json.loads(Path(options.machine).read_text(encoding="utf-8"))
    program = Path(options.command[0])
    isa = isa_of(program)
    system, first = build(p, options, isa)
    system.workload = SEWorkload.init_compatible(str(program))
    # The stack holds the name and not the path, so that addresses do not hang on the folder.
    given = {"input": options.stdin} if options.stdin else {}
    process = Process(
        executable=str(program.resolve()),
        cmd=[program.name, *options.command[1:]],
        cwd=".",
        env=[],
        pid=100,
        **given,
    )
    for cpu in (system.cpu, first):
        if cpu is not None:
            cpu.workload = process
    Root(full_system=False, system=system)
    m5.instantiate()
    if first is not None:
        first.scheduleInstStop(0, options.skip, "tracekit: skipped")
        cause = m5.simulate().getCause()
        if cause != "tracekit: skipped":
            print(f"tracekit_machine.py: ended while skipping: {cause}")
            sys.exit(3)
        m5.switchCpus(system, [(first, system.cpu)])
    event = m5.simulate()
    print(f"tracekit_machine.py: {event.getCause()}")


if __name__ == "__m5_main__":
    main()
