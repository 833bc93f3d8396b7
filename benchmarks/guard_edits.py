"""Guards of the service: the edit that takes each away, and the tests that have to fail then."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Guard:
    """`old` stands once in `file`; with `new` in its place the guard is gone."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


_EXFILTRATION = "tests/app/test_exfiltration.py::"
_MARKUP = "tests/graphs/text/test_inert_markup.py::"
_INJECTIONS = "tests/graphs/workflows/test_injections.py::"
_OWNERS = "tests/app/test_owners.py::"
_KEYS = "tests/app/storage/test_api_keys.py::"
_SSRF = "tests/app/websearch/test_ssrf_guard.py::"
_SECRETS = "tests/app/test_secrets.py::"
_FOLDERS = "tests/evaluator/inference/test_hostile_folders.py::"
_NO_PAGE_LEAVES = (
    f"{_INJECTIONS}test_no_page_leaves_its_block_and_none_is_cited_by_its_own_marker",
)
_ANSWERS, _STREAMS, _QUOTATIONS = (
    f"{_EXFILTRATION}{name}"
    for name in (
        "test_answers_hold_nothing_live",
        "test_no_prefix_of_a_stream_is_live",
        "test_quotations_hold_nothing_live",
    )
)
_EVIDENCE = f"{_EXFILTRATION}test_evidence_is_told_as_it_was_found_and_what_is_shown_of_it_is_inert"
_PRIVATE_URLS = f"{_SSRF}test_no_form_of_a_private_url_is_connected_to"
_PRIVATE_REDIRECTS = f"{_SSRF}test_no_redirect_to_one_is_followed"
_SCOPES = f"{_OWNERS}test_every_operation_asks_for_a_key_of_its_scope"
_SIGNED = f"{_OWNERS}test_a_signed_address_shows_one_image_of_its_owner_for_a_while"
_UNKNOWN = f"{_OWNERS}test_anothers_is_as_unknown_as_what_never_was"
_NOTHING_RUN = f"{_FOLDERS}test_nothing_of_a_model_folder_is_run"

ANSWERS = (
    Guard(
        "Images, links and HTML of an answer are broken",
        "graphs/text/defanging.py",
        "        self._count(match, parts)\n",
        "        return match[0]\n",
        (f"{_MARKUP}test_no_form_survives_in_any_prefix",),
    ),
    Guard(
        "What is streamed waits for its last word",
        "graphs/text/inert_markup.py",
        "        return self._advance(is_last=False)\n",
        "        return self._advance(is_last=True)\n",
        (f"{_MARKUP}test_no_form_survives_in_any_prefix",),
    ),
    Guard(
        "Invisible characters leave an answer",
        "graphs/text/inert_markup.py",
        '_HIDDEN = ("Cc", "Cf")\n',
        "_HIDDEN = ()\n",
        (f"{_MARKUP}test_what_is_live_is_broken_and_can_still_be_read",),
    ),
    Guard(
        "An address is a source from end to end",
        "graphs/text/defanging.py",
        '            return link if is_link else f"] {link[1:]} "\n',
        '            return match[0] + "?d=secret"\n',
        (f"{_MARKUP}test_what_is_live_is_broken_and_can_still_be_read",),
    ),
    Guard(
        "Code that only some renderers take for code is not trusted",
        "graphs/text/inert_markup.py",
        "        is_doubtful = self._display_end or is_lazy\n",
        "        is_doubtful = False\n",
        (f"{_MARKUP}test_no_form_survives_in_any_prefix",),
    ),
    Guard(
        "Languages that frontends draw keep no address",
        "graphs/text/inert_markup.py",
        "not DRAWN.isdisjoint(words)",
        "False",
        (f"{_MARKUP}test_no_form_survives_in_any_prefix",),
    ),
    Guard(
        "What a language model writes is made inert",
        "graphs/generation/answer.py",
        "        if shown := markup.feed(text):\n",
        "        if shown := text:\n",
        (_STREAMS,),
    ),
    Guard(
        "What is quoted is made inert",
        "graphs/text/inert_markup.py",
        'None if links == "all" else [strip.source for strip in knowledge]',
        "None",
        (_QUOTATIONS,),
    ),
    Guard(
        "`degraded` says what was made inert",
        "graphs/generation/answer.py",
        "    degraded = (*cut_short(reply.finish_reason), *markup.degraded)\n"
        "    return GeneratedText(answer, services.chat_name",
        "    degraded = cut_short(reply.finish_reason)\n"
        "    return GeneratedText(answer, services.chat_name",
        (_ANSWERS,),
    ),
    Guard(
        "Criticism is made inert",
        "graphs/nodes/critique.py",
        "criticism=inert(text)",
        "criticism=text",
        (f"{_EXFILTRATION}test_titles_and_criticism_are_told_inert",),
    ),
    Guard(
        "Progress told to OpenAI's clients is inert",
        "app/protocols/progress_text.py",
        'return inert(line if len(line) <= MAX_CHARS else f"{line[: MAX_CHARS - 1]}…")',
        "return line",
        ("tests/app/protocols/test_progress_text.py::test_no_line_links_or_loads_anything",),
    ),
    Guard(
        "Sources told below an answer over MCP are inert",
        "app/extensions/mcp/tools.py",
        '[inert(f"[{c.n}] {c.title} — {c.source}", [c.source]) for c in response.citations]',
        '[f"[{c.n}] {c.title} — {c.source}" for c in response.citations]',
        (_EVIDENCE,),
    ),
    Guard(
        "Only addresses of the web become links over MCP",
        "app/extensions/mcp/tools.py",
        'elif place.origin == "web" and is_web_address(source):',
        'elif place.origin == "web":',
        (_EVIDENCE,),
    ),
    Guard(
        "Only addresses of the web become links of citations",
        "app/protocols/answers.py",
        "    return cited.source if is_harmless else base_url\n",
        "    return cited.source\n",
        (f"{_EXFILTRATION}test_only_addresses_of_the_web_become_links",),
    ),
    Guard(
        "The page takes no text for markup",
        "app/extensions/playground/page/words.mjs",
        ".textContent = ",
        ".innerHTML = ",
        ("tests/app/test_page.py::test_no_text_is_ever_taken_for_markup_or_code",),
    ),
)

PROMPTS = (
    Guard(
        "Tags around data carry characters drawn for each prompt",
        "prompts/__init__.py",
        "nonce=_nonce.get() or token_hex(8)",
        'nonce="0" * 16',
        _NO_PAGE_LEAVES,
    ),
    Guard(
        "Control tokens and tags in data are broken",
        "graphs/text/prompt_injection.py",
        "        pieces += [text[at : match.start()], match[0].translate(_BROKEN)]\n",
        "        pieces += [text[at : match.start()], match[0]]\n",
        _NO_PAGE_LEAVES,
    ),
    Guard(
        "`[n]` of a page is no marker",
        "graphs/text/prompt_injection.py",
        "    return with_round_markers(without_control_tokens(text))\n",
        "    return without_control_tokens(text)\n",
        _NO_PAGE_LEAVES,
    ),
    Guard(
        "Invisible characters leave data",
        "graphs/text/sentences.py",
        '    return _FILLERS.sub("", text.translate(unseen))\n',
        "    return text\n",
        _NO_PAGE_LEAVES,
    ),
    Guard(
        "Queries hold ordinary words and those of the question",
        "graphs/nodes/web.py",
        "        if not _ADDRESS_OR_OPERATOR.match(word)\n",
        "        if word\n",
        (
            "tests/graphs/nodes/test_rewrite_query.py::"
            "test_a_query_holds_ordinary_words_and_those_of_the_question_alone",
        ),
    ),
)

FILES = (
    Guard(
        "No link leads out of a folder that is ingested",
        "app/ingest/files.py",
        " and not _leads_out(file, path):\n",
        ":\n",
        ("tests/app/ingest/test_files.py::test_no_link_leads_out_of_a_folder",),
    ),
    Guard(
        "A document computes for bounded seconds",
        "app/ingest/sandbox.py",
        "    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))\n",
        "    del soft, hard\n",
        ("tests/app/ingest/test_sandbox.py::test_computing_and_memory_are_bounded",),
    ),
    Guard(
        "A document takes bounded memory",
        "app/ingest/sandbox.py",
        "    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))\n",
        "",
        ("tests/app/ingest/test_sandbox.py::test_computing_and_memory_are_bounded",),
    ),
)

SECRETS = (
    Guard(
        "Log records of every library lose secrets",
        "app/observability/redaction.py",
        "            logging.setLogRecordFactory(MaskedRecords(made))\n",
        "            MaskedRecords(made)\n",
        (f"{_SECRETS}test_records_are_masked_whatever_they_are_made_of",),
    ),
    Guard(
        "Passwords leave addresses",
        "app/observability/redaction.py",
        '            text = _USERINFO.sub(rf"\\1{MASK}@", text)\n',
        "            pass\n",
        (f"{_SECRETS}test_records_are_masked_whatever_they_are_made_of",),
    ),
    Guard(
        "Tracebacks lose secrets",
        "app/observability/redaction.py",
        "                record.exc_info, record.exc_text = None, redact(text)\n",
        "                pass\n",
        (f"{_SECRETS}test_records_are_masked_whatever_they_are_made_of",),
    ),
    Guard(
        "Commands mask what they tell",
        "app/cli/terminal.py",
        "{redact(message)}",
        "{message}",
        (f"{_SECRETS}test_a_command_that_fails_masks_what_it_tells",),
    ),
    Guard(
        "Faults of the service tell no details",
        "app/api/problems.py",
        "    problem = StoreFailed().problem if is_store else internal_problem()\n",
        '    problem = Problem(title="Failed", status=500, detail=repr(error))\n    del is_store\n',
        ("tests/app/api/test_request_ids.py::test_a_fault_of_ours_is_logged_with_the_request",),
    ),
    Guard(
        "Runs that fail tell no details",
        "app/runs/run.py",
        "            last = ask.ErrorEvent(problem=internal_problem(self.id))\n",
        "            last = ask.ErrorEvent(problem=internal_problem(repr(error)))\n",
        ("tests/app/test_refusals.py::test_a_fault_of_ours_tells_no_details",),
    ),
    Guard(
        "Owners are told of every document that comes and goes",
        "app/ingest/uploads.py",
        '            audit("documents deleted", scope.owner, (document.id for document in own))\n',
        "",
        ("tests/app/observability/test_audit.py::test_documents_that_come_and_go_are_told",),
    ),
    Guard(
        "Keys that are revoked are told",
        "app/storage/api_keys.py",
        '        audit("key revoked", owner, [key_id])\n',
        "        pass\n",
        (
            "tests/app/observability/test_audit.py::"
            "test_keys_that_are_made_and_revoked_are_told_without_their_secret",
        ),
    ),
)

FETCHING = (
    Guard(
        "Pages are fetched from public addresses alone",
        "app/websearch/ssrf_guard.py",
        "        if not (named or host in self._allowed or all(map(is_public, addresses))):\n",
        "        if False:\n",
        (_PRIVATE_REDIRECTS,),
    ),
    Guard(
        "A name is judged by every address that it has",
        "app/websearch/ssrf_guard.py",
        "all(map(is_public, addresses))",
        "any(map(is_public, addresses))",
        (f"{_SSRF}test_a_name_is_judged_by_every_address_it_has",),
    ),
    Guard(
        "The address that was checked is connected to",
        "app/websearch/ssrf_guard.py",
        "            request.url.copy_with(host=address),\n",
        "            request.url,\n",
        (f"{_SSRF}test_it_connects_to_the_address_that_was_checked",),
    ),
    Guard(
        "Ports are those of the web",
        "app/websearch/ssrf_guard.py",
        "        if port not in _DEFAULT_PORTS.values() and not named:\n",
        "        if False:\n",
        (_PRIVATE_URLS,),
    ),
    Guard(
        "Only http and https are fetched",
        "app/websearch/ssrf_guard.py",
        "        if scheme not in _DEFAULT_PORTS or not host:\n",
        "        if not host:\n",
        (f"{_SSRF}test_it_refuses",),
    ),
    Guard(
        "IPv4 within IPv6 is judged as IPv4",
        "app/websearch/ssrf_guard.py",
        "        if inner is not None and not is_public(str(inner)):\n",
        "        if False:\n",
        (f"{_SSRF}test_other_addresses_do_not",),
    ),
    Guard(
        "Special ranges that older Pythons take for public are not",
        "app/websearch/ssrf_guard.py",
        "    if any(ip in network for network in _SPECIAL):\n",
        "    if False:\n",
        (_PRIVATE_URLS,),
    ),
    Guard(
        "Redirects are counted",
        "app/websearch/page.py",
        "        for _ in range(MAX_REDIRECTS + 1):\n",
        "        for _ in range(100):\n",
        ("tests/app/websearch/test_page.py::test_a_page_that_cannot_be_used_is_refused_in_time",),
    ),
)

TENANTS = (
    Guard(
        "A run is its owner's",
        "app/storage/runs.py",
        "    return true() if owner is None else RUNS.c.owner == owner\n",
        "    return true()\n",
        (f"{_OWNERS}test_lists_hold_ones_own",),
    ),
    Guard(
        "A thread is its owner's",
        "app/storage/threads.py",
        "select(THREADS).where(THREADS.c.id == thread_id, THREADS.c.owner == owner)",
        "select(THREADS).where(THREADS.c.id == thread_id)",
        (_UNKNOWN,),
    ),
    Guard(
        "A thread is deleted and continued by its owner",
        "app/storage/threads.py",
        '    if row["owner"] != owner:\n',
        "    if False:\n",
        (f"{_OWNERS}test_a_thread_of_the_same_name_is_anothers",),
    ),
    Guard(
        "A search sees one owner's documents and the shared ones",
        "app/retrieval/index.py",
        '        parts = [self.among("owner", scope.owners)]\n',
        '        parts = ["1 = 1"]\n',
        (f"{_OWNERS}test_questions_find_ones_own_documents_never_anothers",),
    ),
)

KEYS = (
    Guard(
        "Every operation asks for a key",
        "app/storage/api_keys.py",
        "        if not secret:\n            raise KeyRequired\n",
        "        if not secret:\n            return Caller()\n",
        (_SCOPES,),
    ),
    Guard(
        "A key allows what its scopes say",
        "app/api/middleware.py",
        "        if needed not in caller.scopes and not may_list:\n",
        "        if False:\n",
        (_SCOPES,),
    ),
    Guard(
        "A revoked key ends",
        "app/storage/api_keys.py",
        "        if key is None or key.revoked_at is not None:\n",
        "        if key is None:\n",
        (_SCOPES, f"{_KEYS}test_a_revoked_key_ends_at_once_and_the_service_stays_shut"),
    ),
    Guard(
        "Keys are kept as hashes",
        "app/storage/api_keys.py",
        "    return hashlib.sha256(secret.encode()).hexdigest()\n",
        "    return secret\n",
        (f"{_KEYS}test_a_key_is_kept_as_a_hash_alone",),
    ),
    Guard(
        "Where keys cannot be read nobody is let in",
        "app/storage/api_keys.py",
        "            raise KeysUnreadable from error\n",
        "            return {}\n",
        (f"{_KEYS}test_where_the_keys_cannot_be_read_nobody_is_let_in",),
    ),
    Guard(
        "Others reach the service only with keys",
        "app/api/middleware.py",
        "    if settings.allow_anonymous or is_loopback(settings.host):\n",
        "    if True:\n",
        (f"{_KEYS}test_other_machines_need_a_key_or_a_proxy",),
    ),
    Guard(
        "An image needs a key or a signature",
        "app/storage/signed_addresses.py",
        "        return hmac.compare_digest(expected, signed.signature)\n",
        "        return True\n",
        (_SIGNED,),
    ),
    Guard(
        "A signed address expires",
        "app/storage/api_keys.py",
        "                if signed.expires_at >= now() and signer.has_signed(path, signed):\n",
        "                if signer.has_signed(path, signed):\n",
        (_SIGNED,),
    ),
    Guard(
        "A signed address ends with its key",
        "app/storage/api_keys.py",
        "            if key.id == signed.key_id and key.revoked_at is None:\n",
        "            if key.id == signed.key_id:\n",
        (_SIGNED,),
    ),
    Guard(
        "A signed address shows images alone",
        "app/api/middleware.py",
        '    if scope["method"] != "GET" or not path.startswith(SIGNED_BELOW):\n',
        "    if False:\n",
        (_SIGNED,),
    ),
    Guard(
        "Dialogues lose the signatures of addresses",
        "app/protocols/messages.py",
        "content=without_signatures(turn.text)",
        "content=turn.text",
        (_SIGNED,),
    ),
)

HEADERS = (
    Guard(
        "A foreign Host is refused",
        "app/api/middleware.py",
        "        if not known and not (self._anonymous and not self._hosts):\n",
        "        if False:\n",
        (f"{_KEYS}test_a_foreign_name_is_refused",),
    ),
    Guard(
        "A page of another Origin may not ask",
        "app/api/middleware.py",
        "        if not is_ours:\n",
        "        if False:\n",
        (f"{_KEYS}test_a_page_of_another_origin_may_not_ask",),
    ),
    Guard(
        "The page loads and runs its own files alone",
        "app/extensions/playground/routes.py",
        "        response.headers.update(PAGE_HEADERS)\n",
        "",
        ("tests/app/test_page.py::test_the_browser_is_told_to_load_and_run_nothing_else",),
    ),
    Guard(
        "No page runs scripts of foreign servers",
        "app/api/openapi.py",
        '    "docs_url": None,\n',
        "",
        ("tests/app/test_page.py::test_no_page_runs_scripts_of_foreign_servers",),
    ),
    Guard(
        "Bodies are bounded",
        "app/api/middleware.py",
        "            if received > MAX_BODY_BYTES:\n",
        "            if False:\n",
        ("tests/app/test_refusals.py::test_a_body_over_the_limit_is_413_announced_or_not",),
    ),
)

MODELS = (
    Guard(
        "A checkpoint is read as plain values and types of the graphs",
        "app/storage/checkpoints.py",
        "JsonPlusSerializer(allowed_msgpack_modules=known)",
        "JsonPlusSerializer(pickle_fallback=True, allowed_msgpack_modules=True)",
        ("tests/app/storage/test_checkpoints.py::test_what_a_checkpoint_names_is_not_called",),
    ),
    Guard(
        "Pickled weights are refused",
        "evaluator/model/checkpoint.py",
        "        if path.name.lower().endswith(_PICKLED):\n",
        "        if False:\n",
        (
            _NOTHING_RUN,
            "tests/evaluator/model/test_checkpoint.py::test_pickled_weights_are_refused_by_name",
        ),
    ),
    Guard(
        "Configs that name code are refused",
        "evaluator/model/checkpoint.py",
        "        if key := _forbidden_key(_object(path)):\n",
        "        if key := None:\n",
        (
            _NOTHING_RUN,
            "tests/evaluator/model/test_checkpoint.py::"
            "test_configs_that_run_code_are_refused_by_name",
        ),
    ),
    Guard(
        "Tokenizers run no code of their folder",
        "evaluator/inference/torch_scorer.py",
        "local_files_only=True, trust_remote_code=False)",
        "local_files_only=True, trust_remote_code=True)",
        (_NOTHING_RUN,),
    ),
    Guard(
        "Tensors are read of safetensors alone",
        "evaluator/inference/torch_scorer.py",
        "            use_safetensors=True,\n",
        "            use_safetensors=False,\n            weights_only=False,\n",
        (_NOTHING_RUN,),
    ),
    Guard(
        "A pickle is converted as tensors alone",
        "evaluator/training/convert.py",
        "weights_only=True",
        "weights_only=False",
        (
            "tests/evaluator/training/test_convert.py::"
            "test_code_in_a_pickle_is_refused_and_never_run",
        ),
    ),
)

GUARDS = (
    *ANSWERS, *PROMPTS, *FILES, *SECRETS, *FETCHING, *TENANTS, *KEYS, *HEADERS, *MODELS,
)  # fmt: skip
