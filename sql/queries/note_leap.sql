update stoker.installation set leapt_at = now() returning leapt_at
