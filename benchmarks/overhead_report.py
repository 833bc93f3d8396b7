"""The report of the overhead in Markdown, made of its figures alone."""
from typing import Any

def report(figures: dict[str, Any]) -> str:
    from statistics import median
    out=[]
    for load,ways in figures.get("cost",{}).get("cpu_ms",{}).items():
        base=ways["ainvoke"]; st=ways["astream"]
        for w,ms in ways.items():
            out.append(f"{load:12} {w:36} {median(ms):7.2f} ms  /ainvoke {median(a/b for a,b in zip(ms,base)):.2f} /astream {median(a/b for a,b in zip(ms,st)):.2f}  +{median(a-b for a,b in zip(ms,base)):.2f}")
    out.append(str(figures.get("first")))
    out.append(str(figures.get("stops")))
    return "\n".join(out)+"\n"
