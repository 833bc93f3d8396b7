"""The playground, the page of the API and the handbook's site, as an extension."""

from fastapi import FastAPI

from app.extension import ServiceExtension


class Playground(ServiceExtension):
    def add_to(self, app: FastAPI) -> None:
        from app.extensions.playground import routes

        app.include_router(routes.router)
        app.mount(routes.PAGE_PATH, routes.page_files)
        app.mount(routes.API_PAGE_PATH, routes.api_page_files)
        if (site := app.state.data_dir / "handbook").is_dir():
            app.mount(routes.HANDBOOK_PATH, routes.HandbookFiles(directory=site, html=True))


extension = Playground()
